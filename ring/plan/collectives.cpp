// The collective operations that have one algorithm each.
#include <array>
#include <bit>

#include "ring/plan/algorithm.hpp"
#include "ring/plan/draft.hpp"
#include "ring/plan/slabs.hpp"

namespace anello {
namespace {

void copy_input(Draft& draft, Range range) {
  draft.fold(range, std::array{draft.at(Space::input, range)});
}

}  // namespace

// Root 0:   0 ---------------------> 4
//           0 -------> 2             4 -------> 6
//           0 --> 1    2 --> 3       4 --> 5    6 --> 7     all at once: whoever receives passes on
// A binomial tree of the ranks counted from the root, as in MPICH's small broadcasts.
Plan plan_broadcast(const Shape& shape) {
  const int n = shape.world, place = (shape.rank - shape.root + n) % n;
  const auto rank_at = [&](int other) { return (other + shape.root) % n; };
  const Range all{0, shape.count};
  Draft draft(
      {.rank = shape.rank, .world = n, .input_elems = place == 0 ? shape.count : 0, .output_elems = shape.count});
  const int reach = place == 0 ? int(std::bit_ceil(unsigned(n))) : place & -place;
  if (place != 0) draft.copy(rank_at(place - reach), all);
  for (int distance = reach / 2; distance > 0; distance /= 2)
    if (place + distance < n) draft.send(rank_at(place + distance), all, place == 0 ? Space::input : Space::output);
  if (place == 0) copy_input(draft, all);
  return std::move(draft).finish();
}

// Three ranks:   0 --a--> 1 --b--> 2 --c--> 0
//                0 --c--> 1 --a--> 2 --b--> 0    what came goes on, while it comes
Plan plan_all_gather(const Shape& shape) {
  const int n = shape.world, rank = shape.rank;
  const auto part = [&](int owner) { return Range{std::uint64_t(owner) * shape.count, shape.count}; };
  Draft draft({.rank = rank,
               .world = n,
               .input_elems = shape.count,
               .output_elems = std::uint64_t(n) * shape.count,
               .input_base = part(rank).begin});
  for (int round = 0; round < n - 1; round++) {
    draft.send((rank + 1) % n, part((rank - round + n) % n), round == 0 ? Space::input : Space::output);
    draft.copy((rank + n - 1) % n, part((rank - round - 1 + n) % n));
  }
  copy_input(draft, part(rank));
  return std::move(draft).finish();
}

// Three ranks:   0 --c--> 1 --a--> 2 --b--> 0            each adds its own, in the window
//                0 --b2+0--> 1 --c0+1--> 2 --a1+2--> 0   the last to add is the owner
// The first half of the ring allreduce, one place further on. A slab is the same piece of every rank's part.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems) {
  const int n = shape.world, rank = shape.rank;
  Draft draft({.rank = rank,
               .world = n,
               .input_elems = std::uint64_t(n) * shape.count,
               .output_elems = shape.count,
               .output_base = std::uint64_t(rank) * shape.count});
  const std::uint64_t share = slab_elems == 0 || n == 1 ? 0 : std::max<std::uint64_t>(slab_elems / std::uint64_t(n), 1);
  each_slab(draft, shape.count, share, [&](Range slab) {
    const auto part = [&](int owner) { return Range{std::uint64_t(owner) * shape.count + slab.begin, slab.count}; };
    if (n == 1) return copy_input(draft, slab);
    Operand partial = draft.at(Space::input, part((rank + n - 1) % n));
    for (int round = 1; round < n; round++) {
      draft.send((rank + 1) % n, part((rank - round + n) % n), partial);
      const Range next = part((rank - round - 1 + n) % n);
      const bool last = round == n - 1;
      partial = last ? draft.at(Space::output, next) : draft.window(slab.count);
      draft.reduce((rank + n - 1) % n, next, partial, draft.at(Space::input, next));
    }
  });
  return std::move(draft).finish();
}

}  // namespace anello
