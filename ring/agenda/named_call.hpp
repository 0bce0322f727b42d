// A call of a named operation, as a rank submits it. Borrows the tensors. Pure.
#pragma once
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

// The GPU whose memory has a call's tensors, and the cudaStream_t on which they are made.
struct OnGpu {
  int device = 0;
  CUstream_st* stream = nullptr;
};

struct NamedCall {
  Verb verb = Verb::barrier;
  std::string_view name = {};           // may be empty; borrowed until the call returns
  std::vector<ArrayView> inputs = {};   // broadcast: the same memory as the outputs
  std::vector<ArrayView> outputs = {};  // allreduce: with the inputs' shapes; empty: in place. Other verbs: empty
  Op op = Op::sum;
  int root = -1;                           // broadcast
  std::vector<std::uint64_t> splits = {};  // alltoall: rows for each rank; empty: equal parts
  double prescale = 1, postscale = 1;
  std::optional<DType> wire = {};
  std::optional<OnGpu> on_gpu = {};  // tensors are in GPU memory (allreduce, broadcast), or the GPU of this rank (join)
};

// Groups the arrays by dtype, because tensors of one dtype are reduced or sent as one list. Each inner list has indices
// into `arrays`.
std::vector<std::vector<std::size_t>> by_dtype(const std::vector<ArrayView>& arrays);
std::vector<Tensor> tensors_of(const std::vector<ArrayView>& arrays, const std::vector<std::size_t>& which);

// Returns the parts of the call that are sent to other ranks. Throws Error{invalid_argument} if the call cannot
// be carried out, whatever the other ranks submit.
std::pair<Description, Sizes> describe(const NamedCall& call, int ranks);

// Returns the number of rows of each rank in a reduce_scatter: the first ranks have one more if `rows` is not a
// multiple of `ranks`.
Sizes shares(std::uint64_t rows, int ranks);

}  // namespace anello::agenda
