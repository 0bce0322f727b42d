// Reduce along a tree of the ranks, counted from the root (tree_shape.hpp). A rank passes data on while it adds. If
// hosts have several ranks, one tree adds up within each host, and another tree adds up between one rank of each host.
// To add in rank order, the root adds all contributions, or the ranks of a chain add one after another.
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/tree_shape.hpp"
#include "ring/plan/slabs.hpp"

namespace anello::algorithms {
namespace {

// Adds the children's sums to `mine`, sends the result to the parent, and returns the result's operand.
Operand reduce_up(PlanBuilder& builder, const TreeShape& tree, Range slab, Operand mine, bool root) {
  Operand sum = mine;
  if (root)
    sum = builder.at(Space::output, slab);
  else if (!tree.children.empty() && mine.space != Space::scratch)
    sum = builder.scratch(slab.count);
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child)
    builder.reduce(*child, slab, sum, std::exchange(mine, sum));
  if (builder.rank() > 0) builder.send(tree.parent, slab, mine);
  return mine;
}

void reduce_along_trees(PlanBuilder& builder, const Shape& shape, Algorithm algorithm, Range slab) {
  Operand mine = builder.at(Space::input, slab);
  const auto reduce = [&](const std::vector<int>& ranks, Algorithm shape_of_tree) {
    builder.among(ranks, Space::input, [&] {
      const TreeShape tree = tree_shape(shape_of_tree, builder.world(), builder.rank());
      mine = reduce_up(builder, tree, slab, mine, shape.rank == shape.root);
    });
  };
  if (!shape.hosts) return reduce(places_of(shape), algorithm);
  const auto [mates, leaders] = leaders_of(shape);
  reduce(mates, tree_within_hosts(algorithm));
  if (mates[0] == shape.rank) reduce(leaders, algorithm);
}

//   0 --> root <-- 1, 2, ...    the root adds them in rank order
void reduce_at_root(PlanBuilder& builder, Range slab, int root) {
  if (builder.rank() == root)
    gather_and_fold(builder, slab);
  else
    builder.send(root, slab, Space::input);
}

// For root 1:   0 --> 1 --> 2 --> 3, 3 --> 1    each adds its contribution; the last rank sends the result to the root
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

Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems, Algorithm algorithm) {
  const bool root = shape.rank == shape.root;
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = root ? shape.count : 0});
  if (shape.world == 1)
    reduce_alone(builder, {0, shape.count});
  else if (algorithm == Algorithm::star)
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_at_root(builder, slab, shape.root); });
  else if (algorithm == Algorithm::chain)
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_in_rank_order(builder, slab, shape.root); });
  else
    each_slab(builder, shape.count, slab_elems,
              [&](Range slab) { reduce_along_trees(builder, shape, algorithm, slab); });
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
