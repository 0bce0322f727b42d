#include "ring/algorithms/tree_shape.hpp"

namespace anello::algorithms {
namespace {

TreeShape binomial_tree(int ranks, int rank) {
  TreeShape tree;
  int distance = 1;
  for (; distance < ranks && (rank & distance) == 0; distance *= 2) {
  }
  if (rank != 0) tree.parent = rank - distance;
  for (distance /= 2; distance > 0; distance /= 2)
    if (rank + distance < ranks) tree.children.push_back(rank + distance);
  return tree;
}

// In a subtree, the first rank is the parent of two ranks: the second rank, and the middle one of all ranks after the
// second.
TreeShape binary_tree(int ranks, int rank) {
  TreeShape tree;
  int first = 0, end = ranks;
  while (first != rank) {
    const int middle = first + 1 + (end - first) / 2;
    tree.parent = first;
    first = rank < middle ? first + 1 : middle;
    if (rank < middle) end = middle;
  }
  const int middle = first + 1 + (end - first) / 2;
  if (first + 1 < end) tree.children.push_back(first + 1);
  if (middle < end) tree.children.push_back(middle);
  return tree;
}

TreeShape chain_tree(int ranks, int rank) {
  TreeShape tree;
  if (rank > 0) tree.parent = rank - 1;
  if (rank + 1 < ranks) tree.children.push_back(rank + 1);
  return tree;
}

}  // namespace

TreeShape tree_shape(Algorithm algorithm, int ranks, int rank) {
  if (algorithm == Algorithm::ring) return chain_tree(ranks, rank);
  if (algorithm == Algorithm::halving) return binary_tree(ranks, rank);
  return binomial_tree(ranks, rank);
}

}  // namespace anello::algorithms
