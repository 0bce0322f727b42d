// Reduce and broadcast along a binomial tree: as few messages as the star, log2(n) deep.
//   1 --> 0    3 --> 2    5 --> 4    7 --> 6
//   2 -------> 0          6 -------> 4
//   4 ---------------------> 0               then the same way back
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include <utility>

#include "ring/algorithms/allreduce.hpp"

namespace anello::algorithms::allreduce {

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

}  // namespace anello::algorithms::allreduce
