// The collective operations that have one algorithm each, and which plan an operation has.
#include <array>
#include <bit>
#include <utility>

#include "ring/algorithms/algorithm.hpp"
#include "ring/algorithms/fold.hpp"
#include "ring/base/check.hpp"
#include "ring/plan/draft.hpp"
#include "ring/plan/parts.hpp"
#include "ring/plan/slabs.hpp"

namespace anello {
namespace {

void copy_input(Draft& draft, Range range) {
  draft.fold(range, std::array{draft.at(Space::input, range)});
}

Parts parts_of(const Shape& shape) {
  return {shape.world, shape.count, shape.counts};
}

// Ranks counted from the root: it has place 0.
struct Places {
  int world, root;
  int of(int rank) const { return (rank - root + world) % world; }
  int rank_at(int place) const { return (place + root) % world; }
};

// Root 0:   1 --> 0    3 --> 2    5 --> 4
//           2 -------> 0
//           4 ------------------> 0          the broadcast's tree, the other way
void reduce_along_tree(Draft& draft, Range all, Places places) {
  const int place = places.of(draft.rank());
  const bool leaf = place % 2 != 0 || place + 1 == places.world;
  const Operand sum = place == 0 ? draft.at(Space::output, all) : draft.window(leaf ? 0 : all.count);
  Operand mine = draft.at(Space::input, all);
  int distance = 1;
  for (; distance < places.world && (place & distance) == 0; distance *= 2)
    if (place + distance < places.world)
      draft.reduce(places.rank_at(place + distance), all, sum, std::exchange(mine, sum));
  if (place != 0) draft.send(places.rank_at(place - distance), all, mine);
}

// Root 0:   3 --> 2 --> 1 --> 0    each adds its own on the way
void reduce_along_chain(Draft& draft, Range slab, Places places) {
  const int place = places.of(draft.rank());
  Operand mine = draft.at(Space::input, slab);
  if (place + 1 < places.world) {
    const Operand sum = place == 0 ? draft.at(Space::output, slab) : draft.window(slab.count);
    draft.reduce(places.rank_at(place + 1), slab, sum, std::exchange(mine, sum));
  }
  if (place != 0) draft.send(places.rank_at(place - 1), slab, mine);
}

//   0 --> root <-- 1, 2, ...    the root adds them in rank order
void reduce_at_root(Draft& draft, Range slab, int root) {
  if (draft.rank() == root)
    gather_and_fold(draft, slab);
  else
    draft.send(root, slab, Space::input);
}

// Root 1:   0 --> 1 --> 2 --> 3, 3 --> 1    each adds its own on the way; the last one has the result
void reduce_in_rank_order(Draft& draft, Range slab, int root) {
  const int rank = draft.rank(), last = draft.world() - 1;
  Operand mine = draft.at(Space::input, slab);
  if (rank > 0) {
    const Operand sum = rank == last && rank == root ? draft.at(Space::output, slab) : draft.window(slab.count);
    draft.reduce(rank - 1, slab, sum, std::exchange(mine, sum));
  }
  if (rank < last) draft.send(rank + 1, slab, mine);
  if (root == last) return;
  if (rank == last) draft.send(root, slab, mine);
  if (rank == root) draft.copy(last, slab);
}

}  // namespace

// Root 0:   0 ---------------------> 4
//           0 -------> 2             4 -------> 6
//           0 --> 1    2 --> 3       4 --> 5    6 --> 7     all at once: whoever receives passes on
// A binomial tree of the ranks counted from the root, as in MPICH's small broadcasts.
Plan plan_broadcast(const Shape& shape) {
  const int n = shape.world;
  const Places places{n, shape.root};
  const int place = places.of(shape.rank);
  const Range all{0, shape.count};
  Draft draft(
      {.rank = shape.rank, .world = n, .input_elems = place == 0 ? shape.count : 0, .output_elems = shape.count});
  const int reach = place == 0 ? int(std::bit_ceil(unsigned(n))) : place & -place;
  if (place != 0) draft.copy(places.rank_at(place - reach), all);
  for (int distance = reach / 2; distance > 0; distance /= 2)
    if (place + distance < n)
      draft.send(places.rank_at(place + distance), all, place == 0 ? Space::input : Space::output);
  if (place == 0) copy_input(draft, all);
  return std::move(draft).finish();
}

Plan plan_transfer(const Shape& shape) {
  const bool sends = shape.rank == shape.root;
  const Range all{0, shape.count};
  Draft draft({.rank = shape.rank,
               .world = shape.world,
               .input_elems = sends ? shape.count : 0,
               .output_elems = sends ? 0 : shape.count});
  if (sends)
    draft.send(1 - shape.rank, all, Space::input);
  else
    draft.copy(1 - shape.rank, all);
  return std::move(draft).finish();
}

Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems, Algorithm order) {
  const bool root = shape.rank == shape.root;
  const Places places{shape.world, shape.root};
  Draft draft(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = root ? shape.count : 0});
  if (shape.world == 1)
    copy_input(draft, {0, shape.count});
  else if (order == Algorithm::star)
    each_slab(draft, shape.count, slab_elems, [&](Range slab) { reduce_at_root(draft, slab, shape.root); });
  else if (order == Algorithm::chain)
    each_slab(draft, shape.count, slab_elems, [&](Range slab) { reduce_in_rank_order(draft, slab, shape.root); });
  else if (slab_elems == 0)
    reduce_along_tree(draft, {0, shape.count}, places);
  else
    each_slab(draft, shape.count, slab_elems, [&](Range slab) { reduce_along_chain(draft, slab, places); });
  return std::move(draft).finish();
}

Plan plan_gather(const Shape& shape) {
  const int n = shape.world;
  const bool root = shape.rank == shape.root;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  Draft draft({.rank = shape.rank,
               .world = n,
               .input_elems = own.count,
               .output_elems = root ? parts.whole() : 0,
               .input_base = own.begin});
  if (!root) draft.send(shape.root, own, Space::input);
  for (int k = 1; root && k < n; k++) draft.copy((shape.rank + k) % n, parts.of((shape.rank + k) % n));
  if (root) copy_input(draft, own);
  return std::move(draft).finish();
}

Plan plan_scatter(const Shape& shape) {
  const int n = shape.world;
  const bool root = shape.rank == shape.root;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  Draft draft({.rank = shape.rank,
               .world = n,
               .input_elems = root ? parts.whole() : 0,
               .output_elems = own.count,
               .output_base = own.begin});
  if (!root) draft.copy(shape.root, own);
  for (int k = 1; root && k < n; k++) draft.send((shape.rank + k) % n, parts.of((shape.rank + k) % n), Space::input);
  if (root) copy_input(draft, own);
  return std::move(draft).finish();
}

// Three ranks:   0 --a--> 1 --b--> 2 --c--> 0
//                0 --c--> 1 --a--> 2 --b--> 0    what came goes on, while it comes
Plan plan_all_gather(const Shape& shape) {
  const int n = shape.world, rank = shape.rank;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(rank);
  Draft draft(
      {.rank = rank, .world = n, .input_elems = own.count, .output_elems = parts.whole(), .input_base = own.begin});
  for (int round = 0; round < n - 1; round++) {
    draft.send((rank + 1) % n, parts.of((rank - round + n) % n), round == 0 ? Space::input : Space::output);
    draft.copy((rank + n - 1) % n, parts.of((rank - round - 1 + n) % n));
  }
  copy_input(draft, own);
  return std::move(draft).finish();
}

// Three ranks:   0 --> 1 --> 2 --> 0    each its part for the next
//                0 --> 2 --> 1 --> 0    each its part for the one after that
Plan plan_all_to_all(const Shape& shape) {
  const int n = shape.world, rank = shape.rank;
  const Parts outgoing = parts_of(shape), incoming(n, shape.count, shape.received);
  Draft draft(
      {.rank = rank, .world = n, .input_elems = outgoing.whole(), .output_elems = incoming.whole(), .apart = true});
  for (int distance = 1; distance < n; distance++) {
    const int next = (rank + distance) % n, previous = (rank - distance + n) % n;
    const Range to_next = outgoing.of(next), from_previous = incoming.of(previous);
    draft.send(next, {0, to_next.count}, {Space::input, to_next.begin});
    draft.copy(previous, {0, from_previous.count}, {Space::output, from_previous.begin});
  }
  const Range own = outgoing.of(rank);
  draft.fold({0, own.count}, {Space::output, incoming.of(rank).begin}, std::array{Operand{Space::input, own.begin}});
  return std::move(draft).finish();
}

// Three ranks:   0 --c--> 1 --a--> 2 --b--> 0            each adds its own, in the window
//                0 --b2+0--> 1 --c0+1--> 2 --a1+2--> 0   the last to add is the owner
// The first half of the ring allreduce, one place further on. A slab is the same piece of every rank's part.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems, Algorithm order) {
  const int n = shape.world, rank = shape.rank;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(rank);
  Draft draft(
      {.rank = rank, .world = n, .input_elems = parts.whole(), .output_elems = own.count, .output_base = own.begin});
  const std::uint64_t share = slab_elems == 0 || n == 1 ? 0 : std::max<std::uint64_t>(slab_elems / std::uint64_t(n), 1);
  each_slab(draft, parts.largest(), share, [&](Range slab) {
    const auto part = [&](int owner) {
      const Range all = parts.of(owner);
      const std::uint64_t begin = std::min(slab.begin, all.count), end = std::min(slab.end(), all.count);
      return Range{all.begin + begin, end - begin};
    };
    if (n == 1) return copy_input(draft, part(0));
    if (order == Algorithm::two_shot) {
      for (int k = 1; k < n; k++) draft.send((rank + k) % n, part((rank + k) % n), Space::input);
      return gather_and_fold(draft, part(rank));
    }
    Operand partial = draft.at(Space::input, part((rank + n - 1) % n));
    for (int round = 1; round < n; round++) {
      draft.send((rank + 1) % n, part((rank - round + n) % n), partial);
      const Range next = part((rank - round - 1 + n) % n);
      const bool last = round == n - 1;
      partial = last ? draft.at(Space::output, next) : draft.window(next.count);
      draft.reduce((rank + n - 1) % n, next, partial, draft.at(Space::input, next));
    }
  });
  return std::move(draft).finish();
}

Plan plan_of(const Signature& signature, const Shape& shape) {
  switch (signature.kind) {
    case Kind::allreduce:
      return plan_allreduce(signature.algorithm, shape, signature.slab_elems);
    case Kind::broadcast:
      return plan_broadcast(shape);
    case Kind::all_gather:
      return plan_all_gather(shape);
    case Kind::reduce_scatter:
      return plan_reduce_scatter(shape, signature.slab_elems, signature.algorithm);
    case Kind::barrier:
      return plan_barrier(shape);
    case Kind::reduce:
      return plan_reduce(shape, signature.slab_elems, signature.algorithm);
    case Kind::gather:
      return plan_gather(shape);
    case Kind::scatter:
      return plan_scatter(shape);
    case Kind::all_to_all:
      return plan_all_to_all(shape);
    case Kind::transfer:
      return plan_transfer(shape);
  }
  ANELLO_CHECK(!"a known kind");
}

}  // namespace anello
