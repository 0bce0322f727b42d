// Reduce and broadcast along a binomial tree: as few messages as the star, log2(n) deep.
//   1 --> 0    3 --> 2    5 --> 4    7 --> 6
//   2 -------> 0          6 -------> 4
//   4 ---------------------> 0               then the same way back
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {

void tree(PlanBuilder& builder, Range all) {
  add_up_tree(builder, all);
  send_down_tree(builder, all);
}

}  // namespace anello::algorithms::allreduce
