// Gather and scatter: the root exchanges data directly with each rank.
//   gather:   0 --> root <-- 1, 2, ...      scatter:   0 <-- root --> 1, 2, ...
#include <utility>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {
namespace {

// Gather and scatter differ only in their direction. The root's own part stays on the root.
Plan plan_straight(const Shape& shape, bool to_root) {
  const bool root = shape.rank == shape.root;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  const std::uint64_t whole = root ? parts.whole() : 0;
  PlanBuilder builder({.rank = shape.rank,
                       .world = shape.world,
                       .input_elems = to_root ? own.count : whole,
                       .output_elems = to_root ? whole : own.count,
                       .input_base = to_root ? own.begin : 0,
                       .output_base = to_root ? 0 : own.begin});
  const auto move = [&](bool sends, int peer, Range part) {
    if (sends) builder.send(peer, part, Space::input);
    if (!sends) builder.copy(peer, part);
  };
  if (!root) move(to_root, shape.root, own);
  for (int k = 1; root && k < shape.world; k++) {
    const int peer = (shape.rank + k) % shape.world;
    move(!to_root, peer, parts.of(peer));
  }
  if (root) copy_input(builder, own);
  return std::move(builder).finish();
}

}  // namespace

Plan plan_gather(const Shape& shape) {
  return plan_straight(shape, true);
}

Plan plan_scatter(const Shape& shape) {
  return plan_straight(shape, false);
}

}  // namespace anello::algorithms
