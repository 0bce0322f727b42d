// The collective operations as plans: a pure function of shape and algorithm, the same on every machine. All ranks
// must build theirs from equal arguments, except the rank. Counts are elements; zero is a count, and fewer elements
// than ranks are fine. Every plan is right in place and out of place, except that of alltoall.
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
  std::uint64_t count = 0;  // elements of the smaller of a rank's two buffers; of alltoall, of one part
  int root = 0;             // broadcast, reduce, gather, scatter; transfer: the sender
  // If the ranks' parts are not equal, in place of `count`: how many elements each part has. Of alltoall: how many
  // elements go to each rank, and how many come from each.
  std::vector<std::uint64_t> counts = {}, received = {};
  // Of all ranks; outlives the shape. Null: there is one host, or each rank is alone on its host; then an algorithm of
  // two levels is the one between hosts.
  const Hosts* hosts = nullptr;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Each rank has a part of its own in the larger of the two tensors, whose `count` is that of one part.
bool has_parts(Kind kind);

// output[i] = reduction over ranks of input[i], with the same bits on all ranks. Reduced in slabs of slab_elems (0: all
// at once) which follow each other without a pause. Not for Algorithm::automatic. Unless reproducible(), the order of
// the operands depends on the position of the element.
Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems = 0);

// The root's input to every rank's output (the root's too), down a tree: binomial, or that of `halving` or `ring`
// (tree_shape.hpp); of hosts with several ranks first to one rank of each, then within each. The others have no input.
Plan plan_broadcast(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// The root's input to the output of the other one of two ranks; the root has no output, the other no input.
Plan plan_transfer(const Shape& shape);

// The root's output[i] = reduction over ranks of input[i]; the others have no output. The broadcast's trees, the other
// way. In rank order by `star` (all ranks to the root) or `chain` (0 -> 1 -> ... -> n-1 -> root).
Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm algorithm = Algorithm::automatic);

// The root's output, part r = rank r's input, straight to it; the others have no output. In place the root's input is
// its output's own part.
Plan plan_gather(const Shape& shape);

// output = the root's input, own part, straight from it; the others have no input. In place the root's output is its
// input's own part.
Plan plan_scatter(const Shape& shape);

// output, part r = rank r's input: round the ring, which enters and leaves each host once; by `grid` each to all in the
// lines of a grid; of hosts with several ranks in shares, where one rank of each host receives a part from another
// host, which then goes on to its own host's ranks: from host to host by `shares+ring`, straight from its owner by
// shares+any other name. Without such hosts shares+NAME is NAME, and what is neither `grid` nor in shares the ring. In
// place the input is the output's own part.
Plan plan_allgather(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// output, part r = rank r's input, own part: each straight to its owner, another rank in every round. Not in place.
Plan plan_alltoall(const Shape& shape);

// output = reduction over ranks of input, own part: by the algorithms of the allgather, the other way. In place the
// output is the input's own part. In rank order by `two_shot`: straight to each owner, which folds.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm algorithm = Algorithm::automatic);

// No rank reaches its end before all have begun. No data would mean no message, so this is an allreduce of one
// element, whose value does not matter, by that one's algorithms; automatic: the tree. `count` is ignored.
Plan plan_barrier(const Shape& shape, Algorithm algorithm = Algorithm::automatic);

// The plan of the operation that the signature describes: by its kind, algorithm and slabs.
Plan plan_of(const Signature& signature, const Shape& shape);

}  // namespace anello::algorithms
