// Checks that a plan can be carried out at all: every index is valid, and every access is within its buffer.
#include "ring/base/text.hpp"
#include "ring/plan/interpreter.hpp"

namespace anello::plan {
namespace {

void require(bool condition, const Plan& plan, std::size_t step, const char* what) {
  if (!condition) throw Wrong(text("rank ", plan.rank, " step ", step, ": ", what));
}

bool inside(std::uint64_t first, std::uint64_t count, std::uint64_t limit) {
  return first <= limit && count <= limit - first;
}

// True if the operand is within its space. In a caller's buffer, it must also be at the elements of the range.
bool lies_right(const Plan& plan, Operand operand, Range range) {
  const std::array limits = {plan.input_elems, plan.output_elems, plan.scratch_elems};
  return std::size_t(operand.space) < limits.size() &&
         inside(operand.at, range.count, limits[std::size_t(operand.space)]) &&
         (plan.out_of_place_only || operand.space == Space::scratch ||
          operand.at + plan.base(operand.space) == range.begin);
}

bool fits(Act act, Stream::Kind kind) {
  switch (kind) {
    case Stream::Kind::send:
      return act == Act::send;
    case Stream::Kind::receive:
      return act == Act::copy || act == Act::reduce;
    case Stream::Kind::local:
      return act == Act::fold;
  }
  return false;
}

void check_step(const Plan& plan, const Stream& stream, std::uint32_t index) {
  const Step& step = plan.steps[index];
  const auto need = [&](bool condition, const char* what) { require(condition, plan, index, what); };
  need(fits(step.act, stream.kind), "is in a stream of the wrong kind");
  need(step.range.count > 0, "is empty");
  need(!plan.out_of_place_only || step.range.begin == 0, "does not begin at 0");
  need(lies_right(plan, step.place, step.range), "has memory that does not match its range");
  need(step.act == Act::send || step.place.space != Space::input, "writes to the input");
  need(index == stream.first || step.order > plan.steps[index - 1].order, "is out of program order");
  need(step.act != Act::reduce || step.incoming_left == (stream.peer < plan.rank),
       "has the operand of the higher rank on the left");

  need(!step.makes_result || step.act == Act::reduce || step.act == Act::fold, "makes a result without reducing");

  const bool counted =
      step.act == Act::fold ? step.sources >= 1 : step.sources == std::uint32_t(step.act == Act::reduce);
  need(counted && inside(step.first_source, step.sources, plan.sources.size()), "has the wrong number of sources");
  for (std::uint32_t k = 0; k < step.sources; k++)
    need(lies_right(plan, plan.sources[step.first_source + k], step.range),
         "has a source that does not match its range");

  need(inside(step.first_dep, step.deps, plan.deps.size()), "has dependencies that do not exist");
  for (std::uint32_t k = 0; k < step.deps; k++)
    need(plan.deps[step.first_dep + k].step < plan.steps.size(), "waits for a step that does not exist");
}

void check_stream(const Plan& plan, std::size_t s) {
  const Stream& stream = plan.streams[s];
  const bool local = stream.kind == Stream::Kind::local;
  const bool peer_exists = stream.peer >= 0 && stream.peer < plan.world && stream.peer != plan.rank;
  require(local ? stream.peer == -1 : peer_exists, plan, stream.first, "has a peer that does not exist");
  for (std::size_t other = 0; other < s; other++)
    require(plan.streams[other].kind != stream.kind || plan.streams[other].peer != stream.peer, plan, stream.first,
            "belongs in an earlier stream");
  for (std::uint32_t index = stream.first; index < stream.end; index++) {
    require(plan.steps[index].stream == s, plan, index, "has the wrong number of its stream");
    check_step(plan, stream, index);
  }
}

}  // namespace

void check_form(const Plan& plan) {
  std::uint32_t next = 0;
  for (std::size_t s = 0; s < plan.streams.size(); s++) {
    const Stream& stream = plan.streams[s];
    require(stream.first == next && stream.end > next && stream.end <= plan.steps.size(), plan, next,
            "is in no stream, or in several");
    require(s == 0 || plan.streams[s - 1].kind <= stream.kind, plan, next, "comes after a stream of a later kind");
    next = stream.end;
  }
  require(next == plan.steps.size(), plan, next, "is in no stream");
  for (std::size_t s = 0; s < plan.streams.size(); s++) check_stream(plan, s);
}

}  // namespace anello::plan
