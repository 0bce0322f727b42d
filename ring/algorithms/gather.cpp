// Gather and scatter: straight between the root and each rank.
//   gather:   0 --> root <-- 1, 2, ...      scatter:   0 <-- root --> 1, 2, ...
#include <utility>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {

Plan plan_gather(const Shape& shape) {
  const int n = shape.world;
  const bool root = shape.rank == shape.root;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  PlanBuilder builder({.rank = shape.rank,
                       .world = n,
                       .input_elems = own.count,
                       .output_elems = root ? parts.whole() : 0,
                       .input_base = own.begin});
  if (!root) builder.send(shape.root, own, Space::input);
  for (int k = 1; root && k < n; k++) builder.copy((shape.rank + k) % n, parts.of((shape.rank + k) % n));
  if (root) copy_input(builder, own);
  return std::move(builder).finish();
}

Plan plan_scatter(const Shape& shape) {
  const int n = shape.world;
  const bool root = shape.rank == shape.root;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  PlanBuilder builder({.rank = shape.rank,
                       .world = n,
                       .input_elems = root ? parts.whole() : 0,
                       .output_elems = own.count,
                       .output_base = own.begin});
  if (!root) builder.copy(shape.root, own);
  for (int k = 1; root && k < n; k++) builder.send((shape.rank + k) % n, parts.of((shape.rank + k) % n), Space::input);
  if (root) copy_input(builder, own);
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
