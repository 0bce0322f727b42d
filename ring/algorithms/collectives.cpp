// The collective operations that have one algorithm each, and which plan an operation has.
#include <array>
#include <bit>
#include <utility>

#include "ring/algorithms/algorithm.hpp"
#include "ring/algorithms/fold.hpp"
#include "ring/base/check.hpp"
#include "ring/plan/parts.hpp"
#include "ring/plan/plan_builder.hpp"
#include "ring/plan/slabs.hpp"

namespace anello {
namespace {

void copy_input(PlanBuilder& builder, Range range) {
  builder.fold(range, std::array{builder.at(Space::input, range)});
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
void reduce_along_tree(PlanBuilder& builder, Range all, Places places) {
  const int place = places.of(builder.rank());
  const bool leaf = place % 2 != 0 || place + 1 == places.world;
  const Operand sum = place == 0 ? builder.at(Space::output, all) : builder.scratch(leaf ? 0 : all.count);
  Operand mine = builder.at(Space::input, all);
  int distance = 1;
  for (; distance < places.world && (place & distance) == 0; distance *= 2)
    if (place + distance < places.world)
      builder.reduce(places.rank_at(place + distance), all, sum, std::exchange(mine, sum));
  if (place != 0) builder.send(places.rank_at(place - distance), all, mine);
}

// Root 0:   3 --> 2 --> 1 --> 0    each adds its own on the way
void reduce_along_chain(PlanBuilder& builder, Range slab, Places places) {
  const int place = places.of(builder.rank());
  Operand mine = builder.at(Space::input, slab);
  if (place + 1 < places.world) {
    const Operand sum = place == 0 ? builder.at(Space::output, slab) : builder.scratch(slab.count);
    builder.reduce(places.rank_at(place + 1), slab, sum, std::exchange(mine, sum));
  }
  if (place != 0) builder.send(places.rank_at(place - 1), slab, mine);
}

//   0 --> root <-- 1, 2, ...    the root adds them in rank order
void reduce_at_root(PlanBuilder& builder, Range slab, int root) {
  if (builder.rank() == root)
    gather_and_fold(builder, slab);
  else
    builder.send(root, slab, Space::input);
}

// Root 1:   0 --> 1 --> 2 --> 3, 3 --> 1    each adds its own on the way; the last one has the result
void reduce_in_rank_order(PlanBuilder& builder, Range slab, int root) {
  const int rank = builder.rank(), last = builder.world() - 1;
  Operand mine = builder.at(Space::input, slab);
  if (rank > 0) {
    const Operand sum = rank == last && rank == root ? builder.at(Space::output, slab) : builder.scratch(slab.count);
    builder.reduce(rank - 1, slab, sum, std::exchange(mine, sum));
  }
  if (rank < last) builder.send(rank + 1, slab, mine);
  if (root == last) return;
  if (rank == last) builder.send(root, slab, mine);
  if (rank == root) builder.copy(last, slab);
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

Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems, Algorithm order) {
  const bool root = shape.rank == shape.root;
  const Places places{shape.world, shape.root};
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = root ? shape.count : 0});
  if (shape.world == 1)
    copy_input(builder, {0, shape.count});
  else if (order == Algorithm::star)
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_at_root(builder, slab, shape.root); });
  else if (order == Algorithm::chain)
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_in_rank_order(builder, slab, shape.root); });
  else if (slab_elems == 0)
    reduce_along_tree(builder, {0, shape.count}, places);
  else
    each_slab(builder, shape.count, slab_elems, [&](Range slab) { reduce_along_chain(builder, slab, places); });
  return std::move(builder).finish();
}

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

// Three ranks:   0 --a--> 1 --b--> 2 --c--> 0
//                0 --c--> 1 --a--> 2 --b--> 0    what came goes on, while it comes
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

// Three ranks:   0 --> 1 --> 2 --> 0    each its part for the next
//                0 --> 2 --> 1 --> 0    each its part for the one after that
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

// Three ranks:   0 --c--> 1 --a--> 2 --b--> 0            each adds its own, in the scratch
//                0 --b2+0--> 1 --c0+1--> 2 --a1+2--> 0   the last to add is the owner
// The first half of the ring allreduce, one place further on. A slab is the same piece of every rank's part.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems, Algorithm order) {
  const int n = shape.world, rank = shape.rank;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(rank);
  PlanBuilder builder(
      {.rank = rank, .world = n, .input_elems = parts.whole(), .output_elems = own.count, .output_base = own.begin});
  const std::uint64_t share = slab_elems == 0 || n == 1 ? 0 : std::max<std::uint64_t>(slab_elems / std::uint64_t(n), 1);
  each_slab(builder, parts.largest(), share, [&](Range slab) {
    const auto part = [&](int owner) {
      const Range all = parts.of(owner);
      const std::uint64_t begin = std::min(slab.begin, all.count), end = std::min(slab.end(), all.count);
      return Range{all.begin + begin, end - begin};
    };
    if (n == 1) return copy_input(builder, part(0));
    if (order == Algorithm::two_shot) {
      for (int k = 1; k < n; k++) builder.send((rank + k) % n, part((rank + k) % n), Space::input);
      return gather_and_fold(builder, part(rank));
    }
    Operand partial = builder.at(Space::input, part((rank + n - 1) % n));
    for (int round = 1; round < n; round++) {
      builder.send((rank + 1) % n, part((rank - round + n) % n), partial);
      const Range next = part((rank - round - 1 + n) % n);
      const bool last = round == n - 1;
      partial = last ? builder.at(Space::output, next) : builder.scratch(next.count);
      builder.reduce((rank + n - 1) % n, next, partial, builder.at(Space::input, next));
    }
  });
  return std::move(builder).finish();
}

Plan plan_of(const Signature& signature, const Shape& shape) {
  switch (signature.kind) {
    case Kind::allreduce:
      return plan_allreduce(signature.algorithm, shape, signature.slab_elems);
    case Kind::broadcast:
      return plan_broadcast(shape);
    case Kind::allgather:
      return plan_allgather(shape);
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
    case Kind::alltoall:
      return plan_alltoall(shape);
    case Kind::transfer:
      return plan_transfer(shape);
  }
  ANELLO_CHECK(!"a known kind");
}

}  // namespace anello
