// Allgather: round the ring.
//   0 --a--> 1 --b--> 2 --c--> 0    each of three ranks sends its own part
//   0 --c--> 1 --a--> 2 --b--> 0    what came goes on, while it comes
#include <utility>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {

Plan plan_allgather(const Shape& shape) {
  const int n = shape.world, rank = shape.rank;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(rank);
  PlanBuilder builder(
      {.rank = rank, .world = n, .input_elems = own.count, .output_elems = parts.whole(), .input_base = own.begin});
  for (int round = 0; round < n - 1; round++) {
    builder.send((rank + 1) % n, parts.of((rank - round + n) % n), round == 0 ? Space::input : Space::output);
    builder.copy((rank + n - 1) % n, parts.of((rank - round - 1 + n) % n));
  }
  copy_input(builder, own);
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
