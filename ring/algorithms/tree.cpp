// Reduce and broadcast along a binomial tree: as few messages as the star, with depth 2 log2(n).
//   1 --> 0    3 --> 2    5 --> 4    7 --> 6
//   2 -------> 0          6 -------> 4
//   4 ---------------------> 0               then the same in the opposite direction
#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {

void tree(PlanBuilder& builder, Range all) {
  add_up_tree(builder, all);
  send_down_tree(builder, all);
}

}  // namespace anello::algorithms::allreduce
