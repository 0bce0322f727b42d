// Reduce: along a binomial tree; in slabs along a chain, which streams; in rank order at the root or along a chain.
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/plan/slabs.hpp"

namespace anello::algorithms {
namespace {

// Root 0:   1 --> 0    3 --> 2    5 --> 4
//           2 -------> 0
//           4 ------------------> 0          the broadcast's tree, the other way
// Adds to `mine`, and returns where the sum is.
Operand reduce_along_tree(PlanBuilder& builder, Range all, Operand mine, bool root) {
  const int n = builder.world(), place = builder.rank();
  const bool leaf = place % 2 != 0 || place + 1 == n;
  Operand sum = mine;
  if (root)
    sum = builder.at(Space::output, all);
  else if (!leaf && mine.space != Space::scratch)
    sum = builder.scratch(all.count);
  int distance = 1;
  for (; distance < n && (place & distance) == 0; distance *= 2)
    if (place + distance < n) builder.reduce(place + distance, all, sum, std::exchange(mine, sum));
  if (place != 0) builder.send(place - distance, all, mine);
  return mine;
}

// Of hosts with several ranks first within each, then between them.
void reduce_along_trees(PlanBuilder& builder, const Shape& shape) {
  const bool root = shape.rank == shape.root;
  const Range all{0, shape.count};
  Operand mine = builder.at(Space::input, all);
  const auto reduce = [&](const std::vector<int>& ranks) {
    builder.among(ranks, Space::input, [&] { mine = reduce_along_tree(builder, all, mine, root); });
  };
  if (!shape.hosts) return reduce(places_of(shape));
  const auto [mates, leaders] = leaders_of(shape);
  reduce(mates);
  if (mates[0] == shape.rank) reduce(leaders);
}

// Root 0:   3 --> 2 --> 1 --> 0    each adds its own on the way
void reduce_along_chain(PlanBuilder& builder, Range slab) {
  const int place = builder.rank();
  Operand mine = builder.at(Space::input, slab);
  if (place + 1 < builder.world()) {
    const Operand sum = place == 0 ? builder.at(Space::output, slab) : builder.scratch(slab.count);
    builder.reduce(place + 1, slab, sum, std::exchange(mine, sum));
  }
  if (place != 0) builder.send(place - 1, slab, mine);
}

//   0 --> root <-- 1, 2, ...    the root adds them in rank order
void reduce_at_root(PlanBuilder& builder, Range slab, int root) {
  if (builder.rank() == root)
    gather_and_fold(builder, slab);
  else
    builder.send(root, slab, Space::input);
}

// Root 1:   0 --> 1 --> 2 --> 3, 3 --> 1    each adds its own on the way; the last rank has the result
void reduce_in_rank_order(PlanBuilder& builder, Range slab, int root) {
  const int rank = builder.rank(), last = builder.world() - 1;
  Operand mine = builder.at(Space::input, slab);
  if (rank > 0) {
    const Operand sum = rank == last && rank == root ? builder.at(Space::output, slab) : builder.scratch(slab.count);
    builder.reduce(rank - 1, slab, sum, std::exchange(mine, sum));
    if (rank == last) builder.makes_result();
  }
  if (rank < last) builder.send(rank + 1, slab, mine);
  if (root == last) return;
  if (rank == last) builder.send(root, slab, mine);
  if (rank == root) builder.copy(last, slab);
}

}  // namespace

Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems, Algorithm order) {
  const bool root = shape.rank == shape.root;
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = root ? shape.count : 0});
  if (shape.world == 1)
    reduce_alone(builder, {0, shape.count});
  else if (order == Algorithm::star)
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_at_root(builder, slab, shape.root); });
  else if (order == Algorithm::chain)
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_in_rank_order(builder, slab, shape.root); });
  else if (slab_elems == 0)
    reduce_along_trees(builder, shape);
  else
    builder.among(places_of(shape), Space::input, [&] {
      each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_along_chain(builder, slab); });
    });
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
