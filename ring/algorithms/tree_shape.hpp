// The trees of broadcast (root to leaves) and reduce (leaves to root), as seen by one rank. Ranks are numbered from the
// root, which is 0. Pure.
//   binomial, as in MPICH's small broadcasts:      0 ---------------------> 4
//                                                  0 -------> 2             4 -------> 6
//                                                  0 --> 1    2 --> 3       4 --> 5    6 --> 7
//   binary, each with half of the ranks behind it: 0 --> 1, 5    1 --> 2, 4    2 --> 3    5 --> 6, 7
//   chain:                                         0 --> 1 --> 2 --> 3 --> 4 --> 5 --> 6 --> 7
// A rank has at most log2 n children in the binomial tree, two in the binary tree and one in the chain, and sends all
// data to each child. In these three trees, the last rank has the data after log2 n, log2 n and n-1 messages.
#pragma once
#include <vector>

#include "ring/base/algorithm.hpp"

namespace anello::algorithms {

struct TreeShape {
  int parent = 0;             // rank of the parent; not used at the root
  std::vector<int> children;  // the children, in the order in which this rank sends to them
};

// Returns the chain for `ring`, the binary tree for `halving`, and the binomial tree for all other algorithms.
TreeShape tree_shape(Algorithm algorithm, int ranks, int rank);

// Within a host, messages take little time, and most of the time is for copying. So `ring` keeps its chain, and all
// other algorithms use the binomial tree.
inline Algorithm tree_within_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::ring ? Algorithm::ring : Algorithm::tree;
}

}  // namespace anello::algorithms
