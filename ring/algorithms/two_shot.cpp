// Each rank owns a chunk: it receives all contributions to the chunk, folds them in rank order and sends the result to
// all ranks.
//   0 --b--> 1, 0 --c--> 2    1 --c--> 2, 1 --a--> 0    2 --a--> 0, 2 --b--> 1    each folds its own chunk
//   0 --a--> 1, 2             1 --b--> 2, 0             2 --c--> 0, 1
// The depth is two messages, and the traffic is that of the ring. If there are two ranks, each reduces while it
// receives. The name comes from GPU libraries.
#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {

void two_shot(PlanBuilder& builder, Range all) {
  const auto part = [&](int rank) { return chunk(all, rank, builder.world()); };
  fold_parts(builder, part);
  send_parts(builder, part);
}

}  // namespace anello::algorithms::allreduce
