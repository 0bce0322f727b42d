// All ranks send to rank 0, which adds in rank order and sends the result back.
//   1 --> 0 <-- 2, 3, ...
//   1 <-- 0 --> 2, 3, ...
// The star has the minimum number of messages, 2(n-1). Used for small data if ranks share cores.
#include "ring/algorithms/allreduce.hpp"

namespace anello::algorithms::allreduce {

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

}  // namespace anello::algorithms::allreduce
