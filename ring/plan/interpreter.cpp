#include "ring/plan/interpreter.hpp"

#include <algorithm>

#include "ring/base/text.hpp"
#include "ring/plan/limit.hpp"

namespace anello::plan {
int Values::input(int rank, std::uint64_t element) {
  const auto [found, fresh] = inputs_.try_emplace({rank, element}, int(values_.size()));
  if (fresh) values_.push_back({kNone, kNone, rank, element});
  return found->second;
}
int Values::combine(int left, int right) {
  const auto [found, fresh] = combined_.try_emplace({left, right}, int(values_.size()));
  if (fresh) values_.push_back({left, right, 0, 0});
  return found->second;
}
int Values::result(int value) {
  return combine(value, kNone);
}
std::string Values::text(int value) const {
  if (value == kNone) return "nothing";
  const Value& v = values_[std::size_t(value)];
  if (v.left == kNone) return anello::text("x", v.rank, "[", v.element, "]");
  if (v.right == kNone) return anello::text("result of ", text(v.left));
  return anello::text("(", text(v.left), " + ", text(v.right), ")");
}
bool Values::each_once(int value, int world, std::uint64_t element) const {
  if (value == kNone || values_[std::size_t(value)].left == kNone || values_[std::size_t(value)].right != kNone)
    return false;
  std::vector<int> times(std::size_t(world), 0);
  count(values_[std::size_t(value)].left, element, times);
  return std::all_of(times.begin(), times.end(), [](int n) { return n == 1; });
}
void Values::count(int value, std::uint64_t element, std::vector<int>& times) const {
  if (value == kNone) return;
  const Value& v = values_[std::size_t(value)];
  if (v.left == kNone) {
    times[std::size_t(v.rank)] += v.element == element ? 1 : 2;  // 2: counts an element with another index as wrong
    return;
  }
  if (v.right == kNone) return times.assign(times.size(), 2);  // 2: counts a result that is reduced again as wrong
  count(v.left, element, times);
  count(v.right, element, times);
}

Interpreter::Interpreter(std::span<const Plan> ranks, bool in_place, std::uint64_t in_flight_elems, Values& values)
    : in_place_(in_place),
      capacity_(std::max<std::uint64_t>(in_flight_elems, 1)),
      values_(values),
      ranks_(ranks.size()),
      links_(ranks.size() * ranks.size()) {
  for (std::size_t r = 0; r < ranks.size(); r++) set_up(ranks_[r], ranks[r]);
}

void Interpreter::set_up(Rank& rank, const Plan& plan) {
  rank.plan = &plan;
  rank.history.resize(plan.steps.size());
  for (const Stream& stream : plan.streams)
    rank.heads.push_back({std::uint32_t(rank.heads.size()), stream.first, stream.end, 0, Clock(plan.streams.size())});

  auto& [input, output, scratch] = rank.memory;
  const std::uint64_t both = std::max(plan.input_base + plan.input_elems, plan.output_base + plan.output_elems);
  input.resize(in_place_ ? 0 : plan.input_elems);
  output.resize(in_place_ ? both : plan.output_elems);
  scratch.resize(plan.scratch_elems);
  for (std::uint64_t e = plan.input_base; e < plan.input_base + plan.input_elems; e++)
    (in_place_ ? output[e] : input[e - plan.input_base]).value = values_.input(plan.rank, e);
}

void Interpreter::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank& rank : ranks_)
      for (Head& head : rank.heads)
        while (advance(rank, head)) moved = true;
  }
  all_over();
}

// Processes one element of the stream's current step, if that is possible now.
bool Interpreter::advance(Rank& rank, Head& head) {
  if (head.step == head.end) return false;
  const Plan& plan = *rank.plan;
  const Step& step = plan.steps[head.step];
  const Stream& stream = plan.streams[head.stream];
  const std::span deps(plan.deps.data() + step.first_dep, step.deps);
  const auto position_of = [&](std::uint32_t s) { return Position{rank.heads[s].step, rank.heads[s].elems}; };
  if (limit(plan, step, position_of) <= step.range.begin + head.elems) return false;
  Link* out = stream.kind == Stream::Kind::send ? &link(plan.rank, stream.peer) : nullptr;
  Link* in = stream.kind == Stream::Kind::receive ? &link(stream.peer, plan.rank) : nullptr;
  if ((out && out->size() >= capacity_) || (in && in->empty())) return false;

  for (const Dep dep : deps) learn(rank, head, dep);
  head.clock[head.stream]++;
  if (out)
    out->push_back({step.range.begin + head.elems, read(rank, head, step.place)});
  else
    write(rank, head, step.place, written(rank, head, in ? incoming(*in, rank, head) : Values::kNone));
  rank.history[head.step].push_back(head.clock);
  if (++head.elems == step.range.count) {
    head.elems = 0;
    head.step++;
  }
  return true;
}

// The dependency waits for a point of another stream. Merges that stream's clock at that point into this stream's
// clock.
void Interpreter::learn(const Rank& rank, Head& head, Dep dep) const {
  const Range other = rank.plan->steps[dep.step].range;
  const std::uint64_t element = rank.plan->steps[head.step].range.begin + head.elems;
  if (!dep.whole && element < other.begin) return;
  const std::uint64_t point = dep.whole ? other.count - 1 : std::min(element - other.begin, other.count - 1);
  const Clock& known = rank.history[dep.step][point];
  for (std::size_t s = 0; s < known.size(); s++) head.clock[s] = std::max(head.clock[s], known[s]);
}

int Interpreter::incoming(Link& link, const Rank& rank, const Head& head) const {
  const Message message = link.front();
  link.pop_front();
  const std::uint64_t expected = rank.plan->steps[head.step].range.begin + head.elems;
  if (message.element != expected)
    throw Wrong(text("rank ", rank.plan->rank, " step ", head.step, ": expects element ", expected, ", rank ",
                     rank.plan->streams[head.stream].peer, " sends element ", message.element));
  return message.value;
}

int Interpreter::written(Rank& rank, const Head& head, int incoming) {
  const int value = combined(rank, head, incoming);
  return rank.plan->steps[head.step].makes_result ? values_.result(value) : value;
}

int Interpreter::combined(Rank& rank, const Head& head, int incoming) {
  const Step& step = rank.plan->steps[head.step];
  if (step.act == Act::copy) return incoming;
  const Operand* source = rank.plan->sources.data() + step.first_source;
  int value = read(rank, head, source[0]);
  if (step.act == Act::reduce)
    return step.incoming_left ? values_.combine(incoming, value) : values_.combine(value, incoming);
  for (std::uint32_t k = 1; k < step.sources; k++) value = values_.combine(value, read(rank, head, source[k]));
  return value;
}

Interpreter::Cell& Interpreter::cell(Rank& rank, const Head& head, Operand operand) const {
  const bool shared = in_place_ && operand.space != Space::scratch;
  if (shared) return rank.memory[std::size_t(Space::output)][operand.at + rank.plan->base(operand.space) + head.elems];
  return rank.memory[std::size_t(operand.space)][operand.at + head.elems];
}

int Interpreter::read(Rank& rank, const Head& head, Operand operand) const {
  Cell& from = cell(rank, head, operand);
  must_follow(rank, head, from.writer, "reads an element that may not be written yet");
  if (from.value == Values::kNone)
    throw Wrong(text("rank ", rank.plan->rank, " step ", head.step, " element ", head.elems,
                     ": reads an element that was never written"));
  const Event now{head.stream, head.clock[head.stream]};
  const auto same = std::find_if(from.readers.begin(), from.readers.end(),
                                 [&](const Event& event) { return event.stream == now.stream; });
  if (same == from.readers.end())
    from.readers.push_back(now);
  else
    *same = now;
  return from.value;
}

void Interpreter::write(Rank& rank, const Head& head, Operand operand, int value) const {
  Cell& to = cell(rank, head, operand);
  must_follow(rank, head, to.writer, "overwrites an element that may not be written yet");
  for (const Event& reader : to.readers) must_follow(rank, head, reader, "overwrites an element still to be read");
  to.value = value;
  to.writer = {head.stream, head.clock[head.stream]};
  to.readers.clear();
}

void Interpreter::must_follow(const Rank& rank, const Head& head, Event earlier, const char* what) const {
  if (head.clock[earlier.stream] >= earlier.number) return;
  throw Wrong(text("rank ", rank.plan->rank, " step ", head.step, " element ", head.elems, ": ", what,
                   ", by a step of stream ", earlier.stream));
}

void Interpreter::all_over() const {
  for (const Rank& rank : ranks_)
    for (const Head& head : rank.heads)
      if (head.step != head.end)
        throw Wrong(text("rank ", rank.plan->rank, " step ", head.step, " element ", head.elems, ": waits for ever"));
  for (std::size_t i = 0; i < links_.size(); i++)
    if (!links_[i].empty())
      throw Wrong(text("rank ", i % ranks_.size(), " never takes what rank ", i / ranks_.size(), " sends"));
}

int Interpreter::output(int rank, std::uint64_t element) const {
  const Rank& state = ranks_[std::size_t(rank)];
  return state.memory[std::size_t(Space::output)][in_place_ ? element : element - state.plan->output_base].value;
}

}  // namespace anello::plan
