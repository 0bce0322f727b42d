// Broadcast along a tree of the ranks, counted from the root (tree_shape.hpp). A rank passes data on while it receives
// more. If hosts have several ranks, one tree goes to one rank of each host, and another tree goes from that rank to
// the other ranks of its host. This file also has transfer, from one rank to another.
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/tree_shape.hpp"

namespace anello::algorithms {

Plan plan_broadcast(const Shape& shape, Algorithm algorithm) {
  const bool root = shape.rank == shape.root;
  const Range all{0, shape.count};
  const Space of_root = root ? Space::input : Space::output;
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = root ? shape.count : 0, .output_elems = shape.count});
  const auto send_down = [&](const std::vector<int>& ranks, Algorithm shape_of_tree) {
    builder.among(ranks, Space::input, [&] {
      const TreeShape tree = tree_shape(shape_of_tree, builder.world(), builder.rank());
      if (builder.rank() > 0) builder.copy(tree.parent, all);
      for (const int child : tree.children) builder.send(child, all, of_root);
    });
  };
  if (!shape.hosts) {
    send_down(places_of(shape), algorithm);
  } else {
    const auto [mates, leaders] = leaders_of(shape);
    if (mates[0] == shape.rank) send_down(leaders, algorithm);
    send_down(mates, tree_within_hosts(algorithm));
  }
  if (root) copy_input(builder, all);
  return std::move(builder).finish();
}

Plan plan_transfer(const Shape& shape) {
  const bool sends = shape.rank == shape.root;
  const Range all{0, shape.count};
  PlanBuilder builder({.rank = shape.rank,
                       .world = shape.world,
                       .input_elems = sends ? shape.count : 0,
                       .output_elems = sends ? 0 : shape.count});
  if (sends)
    builder.send(1 - shape.rank, all, Space::input);
  else
    builder.copy(1 - shape.rank, all);
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
