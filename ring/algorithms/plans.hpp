// The collective operations as plans. A plan is a pure function of shape and algorithm, and equal on every machine. All
// ranks must pass equal arguments, except the rank. Counts are in elements. A count may be 0, or less than the number
// of ranks. Every plan except alltoall's works in place and out of place.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "ring/algorithms/hosts.hpp"
#include "ring/base/algorithm.hpp"
#include "ring/base/signature.hpp"
#include "ring/plan/plan.hpp"

namespace anello::algorithms {

using namespace plan;  // Plan, PlanBuilder and the like

struct Shape {
  int rank = 0, world = 1;
  std::uint64_t count = 0;  // elements of a rank's smaller buffer; alltoall: elements of one part
  int root = 0;             // for broadcast, reduce, gather and scatter; for transfer, the sender
  // Used instead of `count` if the ranks' parts are not equal: the number of elements of each part. For alltoall,
  // `counts` has the numbers of elements that go to each rank, and `received` the numbers that come from each rank.
  std::vector<std::uint64_t> counts = {}, received = {};
  // The hosts of all ranks; must outlive the shape. Null: there is one host, or each rank is alone on its host. Then a
  // two-level algorithm is replaced by its algorithm between hosts.
  const Hosts* hosts = nullptr;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// output[i] = the reduction over all ranks of input[i], with the same bits on all ranks. Works in slabs of slab_elems
// (0: one slab), which follow each other without a pause. The algorithm must not be `automatic`. Unless the algorithm
// is reproducible(), the order of the operands depends on the position of the element.
Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems = 0);

// Sends the root's input to every rank's output, including the root's. `ring` uses a chain, `halving` a binary tree,
// and every other algorithm a binomial tree (tree_shape.hpp). If hosts have several ranks, one tree goes to one rank of
// each host, and another tree goes from that rank to the other ranks of its host. Only the root has an input.
Plan plan_broadcast(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// Sends the root's input to the output of the other of two ranks. The root has no output, and the other rank has no
// input.
Plan plan_transfer(const Shape& shape);

// The root's output[i] = the reduction over all ranks of input[i]. The other ranks have no output. Uses the trees of
// broadcast in the opposite direction. The algorithms in rank order are `star` (all ranks send to the root) and `chain`
// (0 -> 1 -> ... -> n-1 -> root).
Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm algorithm = Algorithm::automatic);

// Part r of the root's output = rank r's input. Every rank sends directly to the root. The other ranks have no output.
// In place, the root's input is its own part of the output.
Plan plan_gather(const Shape& shape);

// output = this rank's part of the root's input. The root sends directly to every rank. The other ranks have no input.
// In place, the root's output is its own part of the input.
Plan plan_scatter(const Shape& shape);

// Part r of the output = rank r's input. `ring`: parts travel round a ring that passes through each host once. `grid`:
// in each line of a grid, every rank sends to all other ranks. `shares+NAME`, for hosts with several ranks: one rank of
// each host receives a part and sends it on to the other ranks of its host. With `shares+ring`, parts travel from host
// to host; with any other NAME, each owner sends its part to all hosts directly. If no host has several ranks,
// shares+NAME means NAME. Any other algorithm means the ring. In place, the input is the rank's own part of the output.
Plan plan_allgather(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// Part r of the output = this rank's part of rank r's input. Every part is sent directly to its owner. In each round a
// rank sends to a different rank. Does not work in place.
Plan plan_alltoall(const Shape& shape);

// output = this rank's part of the reduction over all ranks of input. Uses the algorithms of allgather in the opposite
// direction. The algorithm in rank order is `two_shot`: all ranks send directly to each owner, which folds. In place,
// the output is the rank's own part of the input.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm algorithm = Algorithm::automatic);

// No rank completes before all ranks have begun. A plan without data has no messages, so this plan is an allreduce of
// one element whose value does not matter. It has the algorithms of allreduce; `automatic` means the tree. Ignores
// `count`.
Plan plan_barrier(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// Returns the plan of the operation that the signature describes by its kind, algorithm and slab size.
Plan plan_of(const Signature& signature, const Shape& shape);

}  // namespace anello::algorithms
