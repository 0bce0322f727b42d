// Every rank sends all its data to every other rank, and every rank folds all inputs.
//   0 --> 1, 2, 3    1 --> 2, 3, 0    2 --> 3, 0, 1    3 --> 0, 1, 2
// The depth is one message, and n(n-1) messages are sent. Useful for two ranks, or where messages cost little. The name
// comes from GPU libraries.
#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {

void one_shot(PlanBuilder& builder, Range all) {
  const int n = builder.world(), rank = builder.rank();
  for (int k = 1; k < n; k++) builder.send((rank + k) % n, all, Space::input);
  gather_and_fold(builder, all);
  if (n == 2) builder.pairwise();
}

}  // namespace anello::algorithms::allreduce
