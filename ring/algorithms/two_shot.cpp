// Each rank owns a chunk: it receives all contributions to it, folds them in rank order and sends the result to all.
//   0 --b--> 1, 0 --c--> 2    1 --c--> 2, 1 --a--> 0    2 --a--> 0, 2 --b--> 1    each folds its own chunk
//   0 --a--> 1, 2             1 --b--> 2, 0             2 --c--> 0, 1
// Two messages deep, with the ring's traffic. The name is that of GPU libraries.
#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {

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

}  // namespace anello::algorithms::allreduce
