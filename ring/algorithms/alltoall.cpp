// Alltoall: in every round each rank sends to a different rank.
//   0 --> 1 --> 2 --> 0    each of three ranks sends its part for the next rank
//   0 --> 2 --> 1 --> 0    its part for the rank after that
#include <array>
#include <utility>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {

Plan plan_alltoall(const Shape& shape) {
  const int n = shape.world, rank = shape.rank;
  const Parts outgoing = parts_of(shape), incoming(n, shape.count, shape.received);
  PlanBuilder builder({.rank = rank,
                       .world = n,
                       .input_elems = outgoing.whole(),
                       .output_elems = incoming.whole(),
                       .out_of_place_only = true});
  for (int distance = 1; distance < n; distance++) {
    const int next = (rank + distance) % n, previous = (rank - distance + n) % n;
    const Range to_next = outgoing.of(next), from_previous = incoming.of(previous);
    builder.send(next, {0, to_next.count}, {Space::input, to_next.begin});
    builder.copy(previous, {0, from_previous.count}, {Space::output, from_previous.begin});
  }
  const Range own = outgoing.of(rank);
  builder.fold({0, own.count}, {Space::output, incoming.of(rank).begin}, std::array{Operand{Space::input, own.begin}});
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
