// The collective operations as plans: a pure function of shape and algorithm, the same on every machine. All ranks must
// pass equal arguments, except the rank. Counts are in elements; zero is allowed, and so are fewer elements than ranks.
// Every plan works in place and out of place, except that of alltoall.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "ring/algorithms/hosts.hpp"
#include "ring/base/algorithm.hpp"
#include "ring/base/signature.hpp"
#include "ring/plan/plan.hpp"

namespace anello::algorithms {

using namespace plan;  // an algorithm is written in the words of a plan

struct Shape {
  int rank = 0, world = 1;
  std::uint64_t count = 0;  // elements of the smaller of a rank's two buffers; for alltoall, of one part
  int root = 0;             // broadcast, reduce, gather, scatter; transfer: the sender
  // Used instead of `count` if the ranks' parts are not equal: the number of elements of each part. For alltoall,
  // `counts` has the elements that go to each rank, and `received` those that come from each.
  std::vector<std::uint64_t> counts = {}, received = {};
  // The hosts of all ranks; must outlive the shape. Null: there is one host, or each rank is alone on its host; a
  // two-level algorithm is then its algorithm between hosts.
  const Hosts* hosts = nullptr;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// output[i] = reduction over ranks of input[i], with the same bits on all ranks. Reduced in slabs of slab_elems (0: one
// slab), which follow each other without a pause. Not for Algorithm::automatic. Unless reproducible(), the order of the
// operands depends on the position of the element.
Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems = 0);

// Sends the root's input to every rank's output, the root's too, along a tree: the chain of `ring`, the binary tree of
// `halving`, or else a binomial tree (tree_shape.hpp). If hosts have several ranks, one tree goes to one rank of each
// host, and another one from there to its host's ranks. Other ranks than the root have no input.
Plan plan_broadcast(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// Sends the root's input to the output of the other of two ranks. The root has no output, the other rank no input.
Plan plan_transfer(const Shape& shape);

// The root's output[i] = reduction over ranks of input[i]; the other ranks have no output. Uses the broadcast's trees
// in the opposite direction. In rank order by `star` (all ranks to the root) or `chain` (0 -> 1 -> ... -> n-1 -> root).
Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm algorithm = Algorithm::automatic);

// Part r of the root's output = rank r's input. Every rank sends directly to the root. The other ranks have no output.
// In place, the root's input is its own part of the output.
Plan plan_gather(const Shape& shape);

// output = this rank's part of the root's input. The root sends directly to every rank. The other ranks have no input.
// In place, the root's output is its own part of the input.
Plan plan_scatter(const Shape& shape);

// Part r of the output = rank r's input. By `ring`: round a ring that passes through each host once. By `grid`: in each
// line of a grid, every rank sends to all others. By `shares+NAME`, for hosts with several ranks: one rank of each host
// receives a part and sends it on to its host's ranks; with `shares+ring` parts go from host to host, with any other
// NAME each owner sends to all hosts directly. Without such hosts shares+NAME is NAME. Any other algorithm means the
// ring. In place, the input is the rank's own part of the output.
Plan plan_allgather(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// Part r of the output = this rank's part of rank r's input. Every part is sent directly to its owner, to another rank
// in each round. Not in place.
Plan plan_alltoall(const Shape& shape);

// output = this rank's part of the reduction over ranks of input. Uses the algorithms of allgather in the opposite
// direction. In rank order by `two_shot`: all send directly to each owner, which folds. In place, the output is the
// rank's own part of the input.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm algorithm = Algorithm::automatic);

// No rank completes before all have begun. The plan is an allreduce of one element, whose value does not matter,
// because a plan without data has no messages; its algorithms are those of allreduce, and automatic is the tree.
// Ignores `count`.
Plan plan_barrier(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// Returns the plan of the operation that the signature describes by its kind, algorithm and slab size.
Plan plan_of(const Signature& signature, const Shape& shape);

}  // namespace anello::algorithms
