#include "ring/plan/check.hpp"

#include "ring/base/text.hpp"
#include "ring/plan/interpreter.hpp"

namespace anello {
namespace {

struct Frame {
  std::uint64_t input_elems, output_elems, input_base, output_base;
  friend bool operator==(const Frame&, const Frame&) = default;
};

// The buffers that the promise speaks of, for a rank, with `count` elements in the smaller one.
Frame frame_of(const Promise& promise, int rank, int world, std::uint64_t count) {
  const std::uint64_t all = count * std::uint64_t(world), own = count * std::uint64_t(rank);
  const bool root = rank == promise.root;
  switch (promise.collective) {
    case Collective::allreduce:
      return {count, count, 0, 0};
    case Collective::broadcast:
      return {root ? count : 0, count, 0, 0};
    case Collective::all_gather:
      return {count, all, own, 0};
    case Collective::reduce_scatter:
      return {all, count, 0, own};
    case Collective::reduce:
      return {count, root ? count : 0, 0, 0};
    case Collective::gather:
      return {count, root ? all : 0, own, 0};
    case Collective::scatter:
      return {root ? all : 0, count, 0, own};
  }
  return {};
}

void check_frames(std::span<const Plan> ranks, const Promise& promise) {
  const int world = int(ranks.size());
  if (world == 0) throw Wrong("there are no plans");
  const Plan& first = ranks[0];
  const bool grows = promise.collective == Collective::all_gather || promise.collective == Collective::gather;
  const bool narrows = promise.collective == Collective::reduce;
  const std::uint64_t count = grows || narrows ? first.input_elems : first.output_elems;
  for (int r = 0; r < world; r++) {
    const Plan& plan = ranks[std::size_t(r)];
    if (plan.rank != r || plan.world != world)
      throw Wrong(text("rank ", r, " of ", world, " has the plan of rank ", plan.rank, " of ", plan.world));
    const Frame frame{plan.input_elems, plan.output_elems, plan.input_base, plan.output_base};
    if (frame != frame_of(promise, r, world, count))
      throw Wrong(text("rank ", r, " has buffers that the operation has not"));
  }
}

// Rank `rank`'s result at this element, where the promise leaves no choice; kNone where it only asks for each
// contribution once.
int exact_result(const Promise& promise, int world, std::uint64_t count, std::uint64_t element, Values& values) {
  if (promise.collective == Collective::broadcast || promise.collective == Collective::scatter)
    return values.input(promise.root, element);
  if (promise.collective == Collective::all_gather || promise.collective == Collective::gather)
    return values.input(int(element / count), element);
  if (!promise.rank_order) return Values::kNone;
  int value = values.input(0, element);
  for (int r = 1; r < world; r++) value = values.combine(value, values.input(r, element));
  return value;
}

void check_results(std::span<const Plan> ranks, const Promise& promise, const Interpreter& done, Values& values) {
  const int world = int(ranks.size());
  for (const Plan& plan : ranks)
    for (std::uint64_t e = plan.output_base; e < plan.output_base + plan.output_elems; e++) {
      const int value = done.output(plan.rank, e);
      int expected = exact_result(promise, world, plan.input_elems, e, values);
      if (expected == Values::kNone) {
        if (!values.each_once(value, world, e))
          throw Wrong(
              text("rank ", plan.rank, " element ", e, ": not each contribution once, but ", values.text(value)));
        expected = promise.collective == Collective::allreduce ? done.output(0, e) : value;
      }
      if (value != expected)
        throw Wrong(
            text("rank ", plan.rank, " element ", e, ": is ", values.text(value), ", not ", values.text(expected)));
    }
}

}  // namespace

std::optional<std::string> check(std::span<const Plan> ranks, Promise promise, std::uint64_t in_flight_elems) {
  const char* where = "";
  try {
    check_frames(ranks, promise);
    for (const Plan& plan : ranks) check_form(plan);
    for (const bool in_place : {true, false}) {
      where = in_place ? "in place: " : "out of place: ";
      Values values;
      Interpreter interpreter(ranks, in_place, in_flight_elems, values);
      interpreter.run();
      check_results(ranks, promise, interpreter, values);
    }
    return std::nullopt;
  } catch (const Wrong& wrong) {
    return where + std::string(wrong.what());
  }
}

}  // namespace anello
