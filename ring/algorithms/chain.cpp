// Sums travel from rank 0 to rank n-1, results travel back.
//   0 --> 1 --> 2 --> 3    adding on the way
//   0 <-- 1 <-- 2 <-- 3    all links are busy at once; inner ranks send all data twice, n/(n-1) times the ring's
// Chosen for large data in rank order.
#include "ring/algorithms/allreduce.hpp"

namespace anello::algorithms::allreduce {

void chain(PlanBuilder& builder, Range all) {
  const int rank = builder.rank(), last = builder.world() - 1;
  if (rank > 0) builder.reduce(rank - 1, all, Space::input);
  if (rank < last) {
    builder.send(rank + 1, all, rank == 0 ? Space::input : Space::output);
    builder.copy(rank + 1, all);
  }
  if (rank > 0) builder.send(rank - 1, all, Space::output);
}

}  // namespace anello::algorithms::allreduce
