// The ranks are arranged in a grid. Dimension by dimension, the ranks of a line reduce as in two_shot: each keeps the
// sum of one part, so the next round has less data. Then the results travel back in reverse order. Six ranks, in three
// lines of two and two lines of three:
//   0 <-abc|def-> 3    1 <-abc|def-> 4    2 <-abc|def-> 5    each keeps the sum of one half
//   0 <-a|b|c-> 1, 2                      3 <-d|e|f-> 4, 5   and of a third of it; then back, in reverse order
// The grid has the minimum traffic, like the ring, and a depth of few messages, like a tree. Useful for many ranks;
// their number need not be a power of two. Halving is the grid whose lines have two ranks each. Source: Peterka et al.,
// "A configurable algorithm for parallel image-compositing applications", 2009 (radix-k).
#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {

void grid(PlanBuilder& builder, Range all) {
  const int n = builder.world();
  const Grid grid(n, Grid::kMaxLine);
  const auto part = [&](int rank) { return chunk(all, rank, n); };
  grid.fold(builder, part);
  grid.send(builder, part);
}

}  // namespace anello::algorithms::allreduce
