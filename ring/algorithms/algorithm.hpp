// The collective operations as plans: a pure function of shape and algorithm, the same on every machine. All ranks
// must build theirs from equal arguments (but for the rank). Counts are elements; zero is a count, and fewer elements
// than ranks are fine. Every plan is right in place and out of place.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "ring/base/algorithm.hpp"
#include "ring/base/signature.hpp"
#include "ring/plan/plan.hpp"

namespace anello {

struct Shape {
  int rank = 0, world = 1;
  std::uint64_t count = 0;  // elements of the smaller of a rank's two buffers; of alltoall, of a part
  int root = 0;             // broadcast, reduce, gather, scatter
  // Where the ranks' parts are not equal, in place of `count`: how many elements each has (of alltoall, how many go
  // to each, and how many come from each).
  std::vector<std::uint64_t> counts = {}, received = {};
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Does every element come out as ((x0 + x1) + x2) + ..., whatever the size, the slabs and the placement of ranks? Where
// elements travel as a `narrow` type: as that of the rounded contributions, rounded.
bool reproducible(Algorithm algorithm, bool narrow = false);

// output[i] = reduction over ranks of input[i]. Reduced in slabs of slab_elems (0: all at once) which follow each
// other without a pause. Not for Algorithm::automatic.
// Bitwise equal on all ranks. Unless reproducible(), the order of the operands is fixed but depends on the position.
Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems = 0);

// The root's input to everybody's output (the root's too), down a binomial tree. The others have no input.
Plan plan_broadcast(const Shape& shape);

// The root's input to the output of the other one of two ranks; the root has no output, the other no input.
Plan plan_transfer(const Shape& shape);

// The root's output[i] = reduction over ranks of input[i]; the others have no output. All at once along a binomial
// tree; in slabs along a chain, which streams: each rank sends the data once and receives it once. In rank order by
// `star` (everything to the root) or `chain` (0 -> 1 -> ... -> n-1 -> root).
Plan plan_reduce(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm order = Algorithm::automatic);

// The root's output, part r = rank r's input, straight to it; the others have no output. In place the root's input is
// its output's own part.
Plan plan_gather(const Shape& shape);

// output = the root's input, own part, straight from it; the others have no input. In place the root's output is its
// input's own part.
Plan plan_scatter(const Shape& shape);

// output, part r = rank r's input, round the ring. In place the input is the output's own part.
Plan plan_allgather(const Shape& shape);

// output, part r = rank r's input, own part: each straight to its owner, who is another one in every round. Not in
// place.
Plan plan_alltoall(const Shape& shape);

// output = reduction over ranks of input, own part, round the ring. In place the output is the input's own part. Rank
// r's result is made in the order r+1, r+2, ..., r (modulo world), but for rank 0, which stands to the left
// of all that came before it. In rank order by `two_shot`: everything straight to its owner, who folds it.
Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems = 0, Algorithm order = Algorithm::automatic);

// Nobody gets to its end before everybody has begun. No data would mean no message, so this is an allreduce of one
// element, whose value is of no interest. `count` is ignored.
Plan plan_barrier(const Shape& shape);

// The plan of the operation that the signature describes: by its kind, algorithm and slabs.
Plan plan_of(const Signature& signature, const Shape& shape);

}  // namespace anello
