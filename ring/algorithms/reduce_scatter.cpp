// Reduce_scatter: the first half of the ring allreduce, one place further on; in rank order straight to each owner.
//   0 --c--> 1 --a--> 2 --b--> 0            each of three ranks adds its own, in scratch
//   0 --b2+0--> 1 --c0+1--> 2 --a1+2--> 0   the last rank to add is the owner
// A slab is the same piece of every rank's part.
#include <algorithm>
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/plan/slabs.hpp"

namespace anello::algorithms {

Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems, Algorithm order) {
  const int n = shape.world, rank = shape.rank;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(rank);
  const std::vector<int> ring = ring_of(shape);
  PlanBuilder builder(
      {.rank = rank, .world = n, .input_elems = parts.whole(), .output_elems = own.count, .output_base = own.begin});
  const std::uint64_t share = slab_elems == 0 || n == 1 ? 0 : std::max<std::uint64_t>(slab_elems / std::uint64_t(n), 1);
  each_slab(builder, parts.largest(), share, [&](Range slab) {
    const auto part = [&](int owner) {
      const Range all = parts.of(owner);
      const std::uint64_t begin = std::min(slab.begin, all.count), end = std::min(slab.end(), all.count);
      return Range{all.begin + begin, end - begin};
    };
    if (n == 1) return reduce_alone(builder, part(0));
    if (order == Algorithm::two_shot) {
      for (int k = 1; k < n; k++) builder.send((rank + k) % n, part((rank + k) % n), Space::input);
      return gather_and_fold(builder, part(rank));
    }
    builder.among(ring, Space::input, [&] {
      const int place = builder.rank();
      const auto part_at = [&](int at) { return part(ring[std::size_t((at + n) % n)]); };
      Operand partial = builder.at(Space::input, part_at(place - 1));
      for (int round = 1; round < n; round++) {
        builder.send((place + 1) % n, part_at(place - round), partial);
        const Range next = part_at(place - round - 1);
        const bool last = round == n - 1;
        partial = last ? builder.at(Space::output, next) : builder.scratch(next.count);
        builder.reduce((place + n - 1) % n, next, partial, builder.at(Space::input, next));
      }
    });
  });
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
