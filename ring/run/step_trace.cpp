#include "ring/run/step_trace.hpp"

namespace anello::run {

void StepTrace::start(const Execution& execution, std::uint32_t wire_shift, std::uint32_t shift) {
  execution_ = &execution;
  wire_shift_ = wire_shift;
  shift_ = shift;
  next_reply_ = 0;
  positions_.clear();
  for (const plan::Stream& stream : execution.plan().streams) positions_.push_back({.step = stream.first});
  spans_.clear();
  mark();
}

void StepTrace::start() {
  spans_.clear();
  mark();
}

// One system call moved all steps that ended between two calls of look(), so these steps get the same time. A reply is
// visible to its peer before this rank looks, so its span begins with the movement: at the mark.
void StepTrace::look(std::uint32_t stream) {
  const trace::Ticks now = trace::ticks();
  Position& before = positions_[stream];
  const auto [step, elems] = execution_->position(stream);
  if (step != before.step || elems != before.elems) {
    if (before.begun == 0) before.begun = last_;
    for (std::uint32_t k = before.step; k < step; k++) {
      const plan::Step& what = execution_->plan().steps[k];
      if (execution_->is_not_sent(what)) continue;
      ended(what, before.begun, now);
      if (const plan::Step* const reply = execution_->reply_of(what, next_reply_)) ended(*reply, last_, now);
    }
    const trace::Ticks begun = step == before.step ? before.begun : elems > 0 ? now : 0;
    before = {step, elems, begun};
  }
  last_ = now;
}

void StepTrace::look_at_local() {
  const auto& streams = execution_->plan().streams;
  for (std::size_t s = streams.size(); s-- > 0 && streams[s].kind == plan::Stream::Kind::local;) look(std::uint32_t(s));
}

void StepTrace::ended(const plan::Step& what, trace::Ticks begin, trace::Ticks end) {
  const std::int32_t peer = execution_->plan().streams[what.stream].peer;
  const std::uint32_t shift = peer < 0 ? shift_ : wire_shift_;
  constexpr std::array kWhats{trace::Span::What::send, trace::Span::What::receive, trace::Span::What::reduce,
                              trace::Span::What::fold};
  spans_.push_back({.begin = begin,
                    .end = end,
                    .bytes = what.range.count << shift,
                    .peer = peer < 0 ? -1 : members_[std::size_t(peer)],
                    .round = what.order,
                    .what = kWhats[std::size_t(what.act)]});
}

void StepTrace::slept(trace::Ticks from) {
  mark();
  spans_.push_back({.begin = from, .end = last_, .what = trace::Span::What::sleep});
}

void StepTrace::folded(std::uint64_t bytes) {
  passed(trace::Span::What::fold, bytes);
}

void StepTrace::scaled(std::uint64_t bytes) {
  passed(trace::Span::What::scale, bytes);
}

void StepTrace::passed(trace::Span::What what, std::uint64_t bytes) {
  const trace::Ticks from = last_;
  mark();
  spans_.push_back({.begin = from, .end = last_, .bytes = bytes, .what = what});
}

}  // namespace anello::run
