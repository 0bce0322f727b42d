// The trees along which a broadcast goes down and a reduce comes up, each as one rank sees it. Ranks are numbered from
// the root, which is 0. Pure.
//   binomial, as in MPICH's small broadcasts:      0 ---------------------> 4
//                                                  0 -------> 2             4 -------> 6
//                                                  0 --> 1    2 --> 3       4 --> 5    6 --> 7
//   binary, each with half of the ranks behind it: 0 --> 1, 5    1 --> 2, 4    2 --> 3    5 --> 6, 7
//   chain:                                         0 --> 1 --> 2 --> 3 --> 4 --> 5 --> 6 --> 7
// A rank has log2 n, two and one children at most, and sends everything to each; it is log2 n, log2 n and n-1 messages
// to the last rank.
#pragma once
#include <vector>

#include "ring/base/algorithm.hpp"

namespace anello::algorithms {

struct TreeShape {
  int parent = 0;             // of all except the root
  std::vector<int> children;  // in the order in which they are sent to
};

// The chain of `ring`, the binary tree of `halving`, and the binomial tree of all others.
TreeShape tree_shape(Algorithm algorithm, int ranks, int rank);

// Between the ranks of a host messages take little time, and copying takes much of it: `ring` keeps to its chain, and
// all others take the binomial tree.
inline Algorithm tree_within_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::ring ? Algorithm::ring : Algorithm::tree;
}

}  // namespace anello::algorithms
