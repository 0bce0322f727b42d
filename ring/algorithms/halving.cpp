// Recursive halving, then doubling. A rank beyond the largest power of two is represented by another rank.
//   0 <-ab|cd-> 1    2 <-ab|cd-> 3    each sends one half and keeps the sum of the other
//   0 <-a|b-> 2      1 <-c|d-> 3      and half of that; then back: ranks exchange the sums they have, twice as many
//                                     in each round
// The first round, with the largest halves, is between nearest ranks, which are most likely on the same host.
// Source: Rabenseifner, "Optimization of collective reduction operations", 2004.
#include <bit>
#include <utility>
#include <vector>

#include "ring/algorithms/allreduce.hpp"

namespace anello::algorithms::allreduce {

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
  // The pair's `first` is the half that this rank keeps; `second` is the half that it sends away.
  std::vector<std::pair<Range, Range>> halves;
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

}  // namespace anello::algorithms::allreduce
