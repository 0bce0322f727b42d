#include "ring/plan/check.hpp"

#include <algorithm>

#include "ring/base/text.hpp"
#include "ring/plan/interpreter.hpp"
#include "ring/plan/parts.hpp"

namespace anello::plan {
namespace {

struct Frame {
  std::uint64_t input_elems, output_elems, input_base, output_base;
  friend bool operator==(const Frame&, const Frame&) = default;
};

// The sizes of buffers and parts according to the expectation. If all parts are equal, `count` is the size of the
// smaller buffer.
class Sizes {
 public:
  Sizes(const Expectation& expectation, int world, std::uint64_t count)
      : expected_(expectation), world_(world), count_(count) {}

  // The parts of the larger buffer; for alltoall, the parts that go to `rank`.
  Parts parts(int rank) const {
    if (expected_.kind != Kind::alltoall || expected_.counts.empty()) return {world_, count_, expected_.counts};
    std::vector<std::uint64_t> column;
    for (int from = 0; from < world_; from++) column.push_back(expected_.counts[std::size_t(from * world_ + rank)]);
    return {world_, 0, column};
  }
  // For alltoall: the parts that `rank` sends.
  Parts outgoing(int rank) const {
    if (expected_.counts.empty()) return {world_, count_, {}};
    return {world_, 0, std::span(expected_.counts).subspan(std::size_t(rank * world_), std::size_t(world_))};
  }

  Frame frame(int rank) const {
    const Parts all = parts(rank);
    const Range own = all.of(rank);
    const bool root = rank == expected_.root;
    switch (expected_.kind) {
      case Kind::allreduce:
      case Kind::barrier:
        return {count_, count_, 0, 0};
      case Kind::broadcast:
        return {root ? count_ : 0, count_, 0, 0};
      case Kind::allgather:
        return {own.count, all.whole(), own.begin, 0};
      case Kind::reduce_scatter:
        return {all.whole(), own.count, 0, own.begin};
      case Kind::reduce:
        return {count_, root ? count_ : 0, 0, 0};
      case Kind::gather:
        return {own.count, root ? all.whole() : 0, own.begin, 0};
      case Kind::scatter:
        return {root ? all.whole() : 0, own.count, 0, own.begin};
      case Kind::alltoall:
        return {outgoing(rank).whole(), all.whole(), 0, 0};
      case Kind::transfer:
        return {root ? count_ : 0, root ? 0 : count_, 0, 0};
    }
    return {};
  }

 private:
  const Expectation& expected_;
  int world_;
  std::uint64_t count_;
};

Sizes sizes_of(std::span<const Plan> ranks, const Expectation& expectation) {
  const Plan& first = ranks[0];
  const bool grows =
      expectation.kind == Kind::allgather || expectation.kind == Kind::gather || expectation.kind == Kind::reduce;
  std::uint64_t count = grows ? first.input_elems : first.output_elems;
  if (expectation.kind == Kind::alltoall) count /= ranks.size();
  if (expectation.kind == Kind::transfer) count = std::max(first.input_elems, first.output_elems);
  return {expectation, int(ranks.size()), count};
}

void check_frames(std::span<const Plan> ranks, const Expectation& expectation) {
  const int world = int(ranks.size());
  if (world == 0) throw Wrong("there are no plans");
  const Sizes sizes = sizes_of(ranks, expectation);
  for (int r = 0; r < world; r++) {
    const Plan& plan = ranks[std::size_t(r)];
    if (plan.rank != r || plan.world != world)
      throw Wrong(text("rank ", r, " of ", world, " has the plan of rank ", plan.rank, " of ", plan.world));
    const Frame frame{plan.input_elems, plan.output_elems, plan.input_base, plan.output_base};
    if (frame != sizes.frame(r) || plan.out_of_place_only != (expectation.kind == Kind::alltoall))
      throw Wrong(text("rank ", r, " has other buffers than the operation"));
  }
}

// Checks that all ranks agree on replies. A link supports replies only if both ranks expect the same number of
// elements.
void check_replies(std::span<const Plan> ranks) {
  const auto count = [](const Plan& plan, Act act) {
    return std::ranges::count_if(plan.steps, [act](const Step& step) { return step.reply && step.act == act; });
  };
  for (const Plan& plan : ranks) {
    if (plan.reply_elems != ranks[0].reply_elems)
      throw Wrong(text("rank ", plan.rank, " waits for replies of ", plan.reply_elems,
                       " elements, but rank 0 waits for replies of ", ranks[0].reply_elems));
    if (plan.reply_elems == 0) continue;
    const Plan& peer = ranks[std::size_t(1 - plan.rank)];
    if (count(plan, Act::reduce) != count(plan, Act::send) || count(plan, Act::send) != count(peer, Act::copy))
      throw Wrong(text("rank ", plan.rank, " does not send the replies that the other rank takes"));
  }
}

// Returns the result of rank `rank` at this element, if the expectation determines its exact value. kNone: the result
// need only contain each contribution once.
int exact_result(const Expectation& expectation, const Sizes& sizes, int rank, int world, std::uint64_t element,
                 Values& values) {
  const Parts parts = sizes.parts(rank);
  int owner = 0;
  while (owner + 1 < world && element >= parts.of(owner).end()) owner++;
  switch (expectation.kind) {
    case Kind::broadcast:
    case Kind::transfer:
    case Kind::scatter:
      return values.input(expectation.root, element);
    case Kind::allgather:
    case Kind::gather:
      return values.input(owner, element);
    case Kind::alltoall:
      return values.input(owner, sizes.outgoing(owner).of(rank).begin + element - parts.of(owner).begin);
    case Kind::allreduce:
    case Kind::barrier:
    case Kind::reduce_scatter:
    case Kind::reduce:
      break;
  }
  if (!expectation.rank_order) return Values::kNone;
  int value = values.input(0, element);
  for (int r = 1; r < world; r++) value = values.combine(value, values.input(r, element));
  return values.result(value);
}

void check_results(std::span<const Plan> ranks, const Expectation& expectation, const Interpreter& done,
                   Values& values) {
  const int world = int(ranks.size());
  const Sizes sizes = sizes_of(ranks, expectation);
  for (const Plan& plan : ranks)
    for (std::uint64_t e = plan.output_base; e < plan.output_base + plan.output_elems; e++) {
      const int value = done.output(plan.rank, e);
      int expected = exact_result(expectation, sizes, plan.rank, world, e, values);
      if (expected == Values::kNone) {
        if (!values.each_once(value, world, e))
          throw Wrong(
              text("rank ", plan.rank, " element ", e, ": not each contribution once, but ", values.text(value)));
        const bool on_all_ranks = expectation.kind == Kind::allreduce || expectation.kind == Kind::barrier;
        expected = on_all_ranks ? done.output(0, e) : value;
      }
      if (value != expected)
        throw Wrong(
            text("rank ", plan.rank, " element ", e, ": is ", values.text(value), ", not ", values.text(expected)));
    }
}

}  // namespace

std::optional<std::string> check(std::span<const Plan> ranks, Expectation expectation, std::uint64_t in_flight_elems) {
  const char* where = "";
  try {
    check_frames(ranks, expectation);
    check_replies(ranks);
    for (const Plan& plan : ranks) check_form(plan);
    for (const bool in_place : {true, false}) {
      if (in_place && ranks[0].out_of_place_only) continue;
      where = in_place ? "in place: " : "out of place: ";
      Values values;
      Interpreter interpreter(ranks, in_place, in_flight_elems, values);
      interpreter.run();
      check_results(ranks, expectation, interpreter, values);
    }
    return std::nullopt;
  } catch (const Wrong& wrong) {
    return where + std::string(wrong.what());
  }
}

}  // namespace anello::plan
