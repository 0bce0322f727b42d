// The allreduce algorithms. Each emits one slab's steps for one rank of at least two; none is called with no elements.
// In the pictures time runs down, a letter is a chunk, and a0+1 is chunk a summed over ranks 0 and 1.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "ring/algorithms/algorithm.hpp"
#include "ring/algorithms/fold.hpp"
#include "ring/base/check.hpp"
#include "ring/plan/plan_builder.hpp"
#include "ring/plan/slabs.hpp"

namespace anello {
namespace {

// Three ranks:   0 --a--> 1 --b--> 2 --c--> 0          each sends its own chunk and adds what comes
//                0 --c2+0--> 1 --a0+1--> 2 --b1+2--> 0  what came goes on: the last to add has the result
//                0 --b--> 1 --c--> 2 --a--> 0           n-1 more rounds carry the results round
// Bandwidth-optimal: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
void ring(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  const int right = (rank + 1) % n, left = (rank + n - 1) % n;
  for (int round = 0; round < 2 * (n - 1); round++) {
    const Range outgoing = chunk(all, (rank - round + 2 * n) % n, n);
    const Range incoming = chunk(all, (rank - round - 1 + 2 * n) % n, n);
    builder.send(right, outgoing, round == 0 ? Space::input : Space::output);
    if (round < n - 1)
      builder.reduce(left, incoming, Space::input);
    else
      builder.copy(left, incoming);
  }
}

//   1 --> 0 <-- 2, 3, ...    rank 0 adds them in rank order
//   1 <-- 0 --> 2, 3, ...
// The fewest messages there can be, 2(n-1): for small data when ranks share cores.
void star(PlanBuilder& builder, Range all) {
  if (builder.rank() != 0) {
    builder.send(0, all, Space::input);
    builder.copy(0, all);
    return;
  }
  for (int peer = 1; peer < builder.world(); peer++)
    builder.reduce(peer, all, peer == 1 ? Space::input : Space::output);
  for (int peer = 1; peer < builder.world(); peer++) builder.send(peer, all, Space::output);
}

//   1 --> 0    3 --> 2    5 --> 4    7 --> 6
//   2 -------> 0          6 -------> 4
//   4 ---------------------> 0               then the same way back
// Reduce and broadcast along a binomial tree: as few messages as the star, log2(n) deep.
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
void tree(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  Space mine = Space::input;
  int distance = 1;
  for (; distance < n && (rank & distance) == 0; distance *= 2)
    if (rank + distance < n) builder.reduce(rank + distance, all, std::exchange(mine, Space::output));
  if (rank != 0) {
    builder.send(rank - distance, all, mine);
    builder.copy(rank - distance, all);
  }
  for (distance /= 2; distance > 0; distance /= 2)
    if (rank + distance < n) builder.send(rank + distance, all, Space::output);
}

//   0 --> 1, 2, 3    1 --> 2, 3, 0    2 --> 3, 0, 1    3 --> 0, 1, 2    then each folds what it has
// One message deep, n(n-1) of them: for two ranks, or where messages cost nothing.
void one_shot(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  for (int k = 1; k < n; k++) builder.send((rank + k) % n, all, Space::input);
  gather_and_fold(builder, all);
  if (n == 2) builder.exchanges();
}

//   0 --b--> 1, 0 --c--> 2    1 --c--> 2, 1 --a--> 0    2 --a--> 0, 2 --b--> 1    each folds its own chunk
//   0 --a--> 1, 2             1 --b--> 2, 0             2 --c--> 0, 1
// Two messages deep and the ring's traffic, in rank order; the name is GPU libraries' for it.
void two_shot(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  const auto to = [&](int k) { return (rank + k) % n; };
  const auto from = [&](int k) { return (rank - k + n) % n; };
  const Range mine = chunk(all, rank, n);
  for (int k = 1; k < n; k++) builder.send(to(k), chunk(all, to(k), n), Space::input);
  gather_and_fold(builder, mine);
  for (int k = 1; k < n; k++) builder.send(to(k), mine, Space::output);
  for (int k = 1; k < n; k++) builder.copy(from(k), chunk(all, from(k), n));
}

//   0 <-ab|cd-> 1    2 <-ab|cd-> 3    each gives half away, keeps the sum of the other half
//   0 <-a|b-> 2      1 <-c|d-> 3      and half of that; then back, doubling what is known
// The largest halves go to the nearest rank, which is the likeliest to be on the same host.
// A rank beyond the largest power of two lets another speak for it.
// Rabenseifner, "Optimization of collective reduction operations", 2004.
void halving(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  const int power = int(std::bit_floor(unsigned(n)));
  if (rank >= power) {
    builder.send(rank - power, all, Space::input);
    builder.copy(rank - power, all);
    return;
  }
  Space mine = Space::input;
  if (rank + power < n) builder.reduce(rank + power, all, std::exchange(mine, Space::output));
  std::vector<std::pair<Range, Range>> halves;  // kept, given
  Range known = all;
  for (int distance = 1; distance < power; distance *= 2) {
    const int upper = (rank & distance) != 0;
    const auto& [kept, given] = halves.emplace_back(chunk(known, upper, 2), chunk(known, 1 - upper, 2));
    builder.send(rank ^ distance, given, mine);
    builder.reduce(rank ^ distance, kept, std::exchange(mine, Space::output));
    known = kept;
  }
  for (int distance = power / 2; distance > 0; distance /= 2) {
    const auto [kept, given] = halves.back();
    halves.pop_back();
    builder.send(rank ^ distance, kept, Space::output);
    builder.copy(rank ^ distance, given);
  }
  if (rank + power < n) builder.send(rank + power, all, Space::output);
}

//   0 --> 1 --> 2 --> 3    adding on the way
//   0 <-- 1 <-- 2 <-- 3    all links at once, since it streams: twice the data each way, n/(n-1) times the ring's
// The way to rank order at large sizes.
void chain(PlanBuilder& builder, Range all) {
  const int rank = builder.rank(), last = builder.world() - 1;
  if (rank > 0) builder.reduce(rank - 1, all, Space::input);
  if (rank < last) {
    builder.send(rank + 1, all, rank == 0 ? Space::input : Space::output);
    builder.copy(rank + 1, all);
  }
  if (rank > 0) builder.send(rank - 1, all, Space::output);
}

// What is sent as a narrower type is rounded: each contribution once; in a chain also the sums on their way, and by
// some algorithms the result.
struct Form {
  Algorithm algorithm;
  void (*emit)(PlanBuilder&, Range);
  bool reproducible, reproducible_if_narrow;
};
constexpr std::array kForms = {
    Form{Algorithm::ring, ring, false, false},       Form{Algorithm::star, star, true, true},
    Form{Algorithm::tree, tree, false, false},       Form{Algorithm::one_shot, one_shot, true, false},
    Form{Algorithm::two_shot, two_shot, true, true}, Form{Algorithm::halving, halving, false, false},
    Form{Algorithm::chain, chain, true, false}};
const Form& form(Algorithm algorithm) {
  const auto found = std::ranges::find(kForms, algorithm, &Form::algorithm);
  ANELLO_CHECK(found != kForms.end());
  return *found;
}

}  // namespace

bool reproducible(Algorithm algorithm, bool narrow) {
  if (algorithm == Algorithm::automatic) return false;
  return narrow ? form(algorithm).reproducible_if_narrow : form(algorithm).reproducible;
}

Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems) {
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = shape.count});
  each_slab(builder, shape.count, shape.world == 1 ? 0 : slab_elems, [&](Range slab) {
    if (shape.world == 1)
      builder.fold(slab, std::array{builder.at(Space::input, slab)});
    else
      form(algorithm).emit(builder, slab);
  });
  return std::move(builder).finish();
}

Plan plan_barrier(const Shape& shape) {
  return plan_allreduce(Algorithm::tree, {.rank = shape.rank, .world = shape.world, .count = 1});
}

}  // namespace anello
