// Allgather: round the ring.
//   0 --a--> 1 --b--> 2 --c--> 0    each of three ranks sends its own part
//   0 --c--> 1 --a--> 2 --b--> 0    what came goes on, while it comes
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {

Plan plan_allgather(const Shape& shape) {
  const int n = shape.world;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  const std::vector<int> ring = ring_of(shape);
  PlanBuilder builder({.rank = shape.rank,
                       .world = n,
                       .input_elems = own.count,
                       .output_elems = parts.whole(),
                       .input_base = own.begin});
  builder.among(ring, Space::input, [&] {
    const int place = builder.rank();
    const auto part = [&](int at) { return parts.of(ring[std::size_t((at + n) % n)]); };
    for (int round = 0; round < n - 1; round++) {
      builder.send((place + 1) % n, part(place - round), round == 0 ? Space::input : Space::output);
      builder.copy((place + n - 1) % n, part(place - round - 1));
    }
  });
  copy_input(builder, own);
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
