// Each rank's chunk travels round the ring twice: first while all ranks add to it, then as the result. Each link
// carries 2(n-1)/n of the data, which is the minimum.
//   0 --a--> 1 --b--> 2 --c--> 0           each of three ranks sends its own chunk and adds to the one it receives
//   0 --c2+0--> 1 --a0+1--> 2 --b1+2--> 0  and passes it on: the last rank to add has the result
//   0 --b--> 1 --c--> 2 --a--> 0           n-1 more rounds carry the results round
// Time runs down; a letter is a chunk; a0+1 is chunk a summed over ranks 0 and 1.
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#include "ring/algorithms/allreduce.hpp"

namespace anello::algorithms::allreduce {

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

}  // namespace anello::algorithms::allreduce
