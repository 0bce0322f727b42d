// A call of a named operation, as a rank submits it. Borrows the tensors. Pure.
#pragma once
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/agenda/description.hpp"

struct CUstream_st;

namespace anello::agenda {

struct ArrayView {
  void* data = nullptr;
  std::vector<std::uint64_t> shape;
  DType dtype = DType::f32;

  Tensor tensor() const { return {data, std::size_t(count(shape)), dtype}; }
};

// The GPU whose memory has a call's tensors, and the cudaStream_t on which the tensors are made.
struct OnGpu {
  int device = 0;
  CUstream_st* stream = nullptr;
};

struct NamedCall {
  Verb verb = Verb::barrier;
  std::string_view name = {};           // may be empty; borrowed until the call returns
  std::vector<ArrayView> inputs = {};   // broadcast: the memory of the outputs
  std::vector<ArrayView> outputs = {};  // allreduce: the inputs' shapes, or empty if in place; other verbs: empty
  Op op = Op::sum;
  int root = -1;                           // only for broadcast: the rank that sends
  std::vector<std::uint64_t> splits = {};  // alltoall: the number of rows for each rank; empty: equal parts
  double prescale = 1, postscale = 1;
  std::optional<DType> wire = {};
  std::optional<OnGpu> on_gpu = {};  // the GPU that has the tensors (allreduce, broadcast), or this rank's GPU (join)
};

// Groups arrays by their member `dtype`, because arrays of one dtype are reduced or sent as one list. Each inner list
// has indices into `arrays`.
template <class Array>
std::vector<std::vector<std::size_t>> by_dtype(const std::vector<Array>& arrays) {
  std::vector<std::vector<std::size_t>> all;
  for (std::size_t k = 0; k < arrays.size(); k++) {
    const auto same = [&](const auto& list) { return arrays[list[0]].dtype == arrays[k].dtype; };
    const auto found = std::ranges::find_if(all, same);
    if (found == all.end())
      all.push_back({k});
    else
      found->push_back(k);
  }
  return all;
}
std::vector<Tensor> tensors_of(const std::vector<ArrayView>& arrays, const std::vector<std::size_t>& which);

// Returns the parts of the call that are sent to other ranks. Throws Error{invalid_argument} if the call cannot be
// carried out, no matter what other ranks submit.
std::pair<Description, Sizes> describe(const NamedCall& call, int ranks);

// Returns the number of rows of each rank in a reduce_scatter. If `rows` is not a multiple of `ranks`, the first ranks
// get one more row.
Sizes shares(std::uint64_t rows, int ranks);

}  // namespace anello::agenda
