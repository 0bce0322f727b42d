#include "ring/run/message_execution.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ring/run/fold.hpp"

namespace anello::run {

using plan::Act;
using Kind = plan::Stream::Kind;

namespace {

std::byte* with_room(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace

bool MessageExecution::suits(const plan::Plan& plan, const Arithmetic& arithmetic) {
  if (arithmetic.narrow || plan.reply_elems > 0) return false;
  if (plan.streams.empty() || plan.streams[0].kind == Kind::local) return false;
  return std::ranges::all_of(
      plan.steps, [&](const plan::Step& step) { return step.range.count << arithmetic.shift <= kMaxDataBytes; });
}

void MessageExecution::begin(const Load& load) {
  use(load.links);
  const plan::Plan& plan = *load.plan;
  plan_ = &plan;
  arithmetic_ = load.arithmetic;
  results_ = load.results();
  std::byte* const scratch = with_room(scratch_, plan.scratch_elems << arithmetic_->shift);
  spaces_ = {load.input->single(0, 0), load.output->single(0, 0), scratch};
  encode(*load.signature, signature_);
  unfinished_ = std::uint32_t(plan.streams.size());
  if (streams_.size() < unfinished_) streams_.resize(unfinished_);
  std::uint32_t first_receive = 0, first_local = 0;
  for (std::uint32_t s = 0; s < unfinished_; s++) {
    const plan::Stream& planned = plan.streams[s];
    Stream& stream = streams_[s];
    stream.step = &plan.steps[planned.first];
    stream.end = stream.step + (planned.end - planned.first);
    if (planned.kind == Kind::local) continue;
    stream.ahead = kSignatureBytes;
    stream.moved = 0;
    stream.bytes = kSignatureBytes + bytes_of(*stream.step);
    stream.peer = planned.peer;
    stream.link = load.links[std::size_t(planned.peer)];
    const bool sends = planned.kind == Kind::send;
    if (!sends) stream.memory = stream.link->memory();
    stream.link->begin(sends, false);
    first_local = s + 1;
    if (sends) first_receive = s + 1;
  }
  first_receive_ = unsent_ = first_receive;
  first_local_ = first_local;
  kept_ = 0;
  set(unfinished_ > 0 ? Status::moving : Status::done);
  turns_.start(first_receive, first_local);
}

void MessageExecution::end_step(Stream& stream) {
  stream.ahead = stream.moved = 0;
  stream.step++;
  if (!stream.ended())
    stream.bytes = bytes_of(*stream.step);
  else if (--unfinished_ == 0)
    set(Status::done);
}

bool MessageExecution::send() {
  bool moved = false;
  for (std::uint32_t s = 0; s < first_receive_; s++)
    if (!streams_[s].ended() && is_ready(*streams_[s].step)) moved |= send_some(streams_[s]);
  return moved;
}

// Sends all messages that are ready, in one call of the link.
bool MessageExecution::send_some(Stream& stream) {
  const std::span<const ConstBytes> pieces = pieces_to_send(stream);
  std::size_t sent = link::with_rank(stream.peer, [&] { return stream.link->send_from(pieces); });
  const bool moved = sent > 0;
  for (std::size_t rest = 0; sent >= (rest = stream.bytes - stream.moved); sent -= rest) {
    end_step(stream);
    if (!stream.ended()) continue;
    unsent_--;
    return true;
  }
  stream.moved += std::uint32_t(sent);
  return moved;
}

std::span<const ConstBytes> MessageExecution::pieces_to_send(const Stream& stream) {
  std::size_t count = 0, skipped = stream.moved;
  if (skipped < stream.ahead) {
    pieces_[count++] = std::as_bytes(std::span(signature_)).subspan(std::exchange(skipped, 0));
  } else {
    skipped -= stream.ahead;
  }
  const bool has_signature = count > 0;
  const plan::Step* step = stream.step;
  do {
    const ConstBytes data{at(step->place), bytes_of(*step)};
    pieces_[count++] = data.subspan(std::exchange(skipped, 0));
  } while (++step != stream.end && count < pieces_.size() && is_ready(*step));
  const std::span<const ConstBytes> pieces = std::span(pieces_).first(count);
  return has_signature && count == 2 && stream.link->prefers_one_piece() ? join_pieces() : pieces;
}

std::span<const ConstBytes> MessageExecution::join_pieces() {
  const ConstBytes signature = pieces_[0], data = pieces_[1];
  pieces_[0] = joined(signature, data, with_room(joined_, signature.size() + data.size()));
  return std::span(pieces_).first(1);
}

// True if more of the message is expected, and its step waits for nothing except sends. If two ranks first send each
// other more than their links hold, both must receive while they send; otherwise they deadlock. A message whose step
// waits for other data stays on its link. (Driver does the same.)
bool MessageExecution::may_receive(const Stream& stream) const {
  if (stream.is_moved()) return false;
  const std::span deps = std::span(plan_->deps).subspan(stream.step->first_dep, stream.step->deps);
  return std::ranges::all_of(deps, [this](const plan::Dep& dep) {
    const plan::Step& other = plan_->steps[dep.step];
    return other.act == Act::send || has_ended(other);
  });
}

Look MessageExecution::receive_some(Stream& stream) {
  if (stream.ended() || !may_receive(stream)) return Look::skipped;
  return receive(stream) ? Look::moved : Look::missed;
}

// Nearly every message arrives whole when its step is ready, and is then used in the link's memory. Any other message
// is kept apart, because its place in the tensor may hold data that is still being sent.
bool MessageExecution::receive(Stream& stream) {
  link::MemoryLink* const memory = stream.memory;
  const std::size_t before = stream.moved, rest = stream.bytes - before;
  std::size_t bytes = 0;
  if (memory) {
    const ConstBytes there = link::with_rank(stream.peer, [&] { return memory->peek(); });
    bytes = std::min(there.size(), rest);
    if (bytes == 0) return false;
    const bool in_place = before == 0 && bytes == rest && is_ready(*stream.step);
    if (!in_place) std::copy_n(there.begin(), bytes, room_to_keep(stream).begin());
    if (in_place && stream.ahead > 0) check_signature(signature_, there, stream.peer, explain_);
    if (in_place) take(stream, there.data());
    link::with_rank(stream.peer, [&] { memory->consume(bytes); });
    if (in_place) return true;
  } else {
    bytes = link::with_rank(stream.peer, [&] { return stream.link->recv_into(std::array{room_to_keep(stream)}); });
  }
  stream.moved += std::uint32_t(bytes);
  // Checks the signature even if no data follows, because a peer in another operation may send less data.
  if (before < stream.ahead && stream.moved >= stream.ahead)
    check_signature(signature_, stream.kept, stream.peer, explain_);
  if (stream.is_moved()) {
    kept_++;
    take_kept(stream);
  }
  return bytes > 0;
}

Bytes MessageExecution::room_to_keep(Stream& stream) {
  return std::span(with_room(stream.kept, stream.bytes), stream.bytes).subspan(stream.moved);
}

bool MessageExecution::take_kept(Stream& stream) {
  if (!is_ready(*stream.step)) return false;
  take(stream, stream.kept.data());
  kept_--;
  return true;
}

// Uses all kept messages whose steps are ready. These steps waited only for sends, which the caller has just tried.
bool MessageExecution::take_all_kept() {
  bool taken = false;
  for (std::uint32_t s = first_receive_; s < first_local_; s++)
    if (!streams_[s].ended() && streams_[s].is_moved()) taken |= take_kept(streams_[s]);
  return taken;
}

// Writes or reduces the data of a whole message, as the step requires.
void MessageExecution::take(Stream& stream, const std::byte* message) {
  const plan::Step& step = *stream.step;
  const std::byte* const data = message + stream.ahead;
  std::byte* const place = at(step.place);
  if (step.act == Act::reduce) {
    const std::byte* const mine = at(plan_->sources[step.first_source]);
    arithmetic_->combine(place, step.incoming_left ? data : mine, step.incoming_left ? mine : data, step.range.count);
  } else {
    std::memcpy(place, data, stream.bytes - stream.ahead);
  }
  if (results_ && step.makes_result) results_->apply(place, step.range.count);
  end_step(stream);
}

bool MessageExecution::compute() {
  bool computed = false;
  for (std::size_t s = first_local_; s < plan_->streams.size(); s++)
    for (Stream& stream = streams_[s]; !stream.ended() && is_ready(*stream.step); computed = true) {
      fold(*stream.step);
      end_step(stream);
    }
  return computed;
}

void MessageExecution::fold(const plan::Step& step) {
  const plan::Operand* const sources = plan_->sources.data() + step.first_source;
  std::byte* const place = at(step.place);
  if (step.sources == 1) {
    if (const std::byte* const source = at(sources[0]); source != place) std::memcpy(place, source, bytes_of(step));
  } else {
    std::byte* const partial = with_room(partial_, kFoldBytes);
    const std::uint64_t block = block_elems(*arithmetic_);
    for (std::uint64_t from = 0; from < step.range.count; from += block) {
      const std::size_t skipped = from << arithmetic_->shift;
      const auto source = [&](std::uint32_t k) { return at(sources[k]) + skipped; };
      run::fold(*arithmetic_, step.sources, source, place + skipped, partial, std::min(block, step.range.count - from));
    }
  }
  if (results_ && step.makes_result) results_->apply(place, step.range.count);
}

bool MessageExecution::pass() {
  bool moved = unsent_ > 0 && send();
  if (kept_ > 0) moved |= take_all_kept();
  const auto order_of = [this](std::uint32_t s) -> std::uint64_t {
    return streams_[s].ended() ? ReceiveTurns::kEnded : streams_[s].step->order;
  };
  moved |= turns_.pass(order_of, [this](std::uint32_t s) { return receive_some(streams_[s]); });
  if (first_local_ < plan_->streams.size()) moved |= compute();
  return moved;
}

void MessageExecution::each_wanted(const Want& want) const {
  for (std::uint32_t s = 0; s < first_local_; s++) {
    const Stream& stream = streams_[s];
    if (stream.ended()) continue;
    if (s >= first_receive_ && may_receive(stream)) want(*stream.link, link::Wanted::bytes);
    if (s < first_receive_ && is_ready(*stream.step)) want(*stream.link, link::Wanted::room);
  }
}

std::pair<std::uint64_t, std::uint64_t> MessageExecution::progress() const {
  std::uint64_t done = 0, all = 0;
  for (const plan::Step& step : plan_->steps) {
    all += bytes_of(step);
    if (has_ended(step)) done += bytes_of(step);
  }
  return {done, all};
}

}  // namespace anello::run
