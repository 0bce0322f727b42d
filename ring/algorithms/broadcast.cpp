// Broadcast: down a binomial tree of the ranks counted from the root, as in MPICH's small broadcasts. Root 0:
//   0 ---------------------> 4
//   0 -------> 2             4 -------> 6
//   0 --> 1    2 --> 3       4 --> 5    6 --> 7     all at once: a rank passes on while it receives
// And transfer, to one other rank.
#include <bit>
#include <utility>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {

Plan plan_broadcast(const Shape& shape) {
  const int n = shape.world;
  const Places places{n, shape.root};
  const int place = places.of(shape.rank);
  const Range all{0, shape.count};
  PlanBuilder builder(
      {.rank = shape.rank, .world = n, .input_elems = place == 0 ? shape.count : 0, .output_elems = shape.count});
  const int reach = place == 0 ? int(std::bit_ceil(unsigned(n))) : place & -place;
  if (place != 0) builder.copy(places.rank_at(place - reach), all);
  for (int distance = reach / 2; distance > 0; distance /= 2)
    if (place + distance < n)
      builder.send(places.rank_at(place + distance), all, place == 0 ? Space::input : Space::output);
  if (place == 0) copy_input(builder, all);
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
