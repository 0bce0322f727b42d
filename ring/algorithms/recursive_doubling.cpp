// Recursive doubling: groups of ranks exchange their sums; the size of a group doubles in each round.
//   0 <--> 1    2 <--> 3    everything in both directions: each rank has the sum of two
//   0 <--> 2    1 <--> 3    the sum of four; the lower rank's operand is the left one, so all ranks get the same bits A
// rank beyond the largest power of two is represented by another rank. The represented rank receives both sums of the
// last round and adds them itself, because a result that was sent to this rank in a narrower type would be rounded once
// more than the other ranks' results. The depth is half that of the tree, but every message has all data. Source:
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include <bit>
#include <utility>

#include "ring/algorithms/allreduce.hpp"

namespace anello::algorithms::allreduce {

void recursive_doubling(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  const int power = int(std::bit_floor(unsigned(n))), half = power / 2;
  if (rank >= power) {
    builder.send(rank - power, all, Space::input);
    builder.copy((rank - power) | half, all);
    builder.reduce((rank - power) & ~half, all, Space::output);
    return;
  }
  Space mine = Space::input;
  if (rank + power < n) builder.reduce(rank + power, all, std::exchange(mine, Space::output));
  for (int distance = 1; distance < power; distance *= 2) {
    builder.send(rank ^ distance, all, mine);
    for (const int each : {rank, rank ^ half})
      if (distance == half && each + power < n) builder.send(each + power, all, mine);
    builder.reduce(rank ^ distance, all, std::exchange(mine, Space::output));
  }
  builder.pairwise();
}

}  // namespace anello::algorithms::allreduce
