// The division of work in a collective on mapped tensors: each rank computes its part of the results from the inputs
// that it reads, and writes this part to the outputs. Pure.
//
//                     reads the inputs of    writes to the outputs of    a rank's part
//   allreduce         all                    all                         a chunk
//   broadcast         the root               all except the root         a chunk
//   reduce            all                    the root                    a chunk
//   allgather         itself                 all                         what its input becomes
//   reduce_scatter    all                    itself                      what its output becomes
#pragma once
#include <vector>

#include "ring/group/call.hpp"
#include "ring/plan/plan.hpp"

namespace anello::group {

// Divides `elems` elements, each of 1 << shift bytes, into equal parts for all ranks, and returns a rank's part. If the
// elements begin at a cache line, each part also begins at a cache line.
plan::Range chunk_of(std::uint64_t elems, int ranks, int rank, std::uint32_t shift);

class DirectParts {
 public:
  explicit DirectParts(int size) : ends_(std::size_t(size)) {}

  // Divides the tensors of `call` into the ranks' parts. An element has 1 << shift bytes.
  void divide(const Call& call, std::uint32_t shift);

  bool reads(int rank, int peer) const { return is_one_of(inputs_, rank, peer); }
  bool writes(int rank, int peer) const { return is_one_of(outputs_, rank, peer); }
  // True if another rank uses the rank's input or output.
  bool shows_input(int rank) const { return is_shown(inputs_, rank); }
  bool shows_output(int rank) const { return is_shown(outputs_, rank); }

  // Returns the rank's part of the larger tensor, in elements.
  plan::Range of(int rank) const;
  std::uint64_t begin_in_input(int rank) const { return inputs_ == Whose::own ? 0 : of(rank).begin; }
  std::uint64_t begin_in_output(int rank) const { return outputs_ == Whose::own ? 0 : of(rank).begin; }
  // Returns the number of elements of the rank's input or output; 0 if the collective does not read or write it.
  std::uint64_t input_elems(int rank) const { return elems(inputs_, rank); }
  std::uint64_t output_elems(int rank) const { return elems(outputs_, rank); }

 private:
  enum class Whose { all, root, others, own };
  bool is_one_of(Whose whose, int rank, int peer) const {
    return whose == Whose::own ? peer == rank : fits(whose, peer);
  }
  bool is_shown(Whose whose, int rank) const { return whose != Whose::own && fits(whose, rank); }
  bool fits(Whose whose, int rank) const { return whose == Whose::all || (whose == Whose::root) == (rank == root_); }
  std::uint64_t elems(Whose whose, int rank) const { return whose == Whose::own ? of(rank).count : ends_.back(); }

  Whose inputs_ = Whose::all, outputs_ = Whose::all;
  int root_ = -1;
  std::vector<std::uint64_t> ends_;  // where each rank's part ends
};

}  // namespace anello::group
