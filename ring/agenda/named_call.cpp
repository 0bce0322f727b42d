#include "ring/agenda/named_call.hpp"

#include <algorithm>
#include <numeric>

#include "ring/agenda/elements.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::agenda {
namespace {

using group::refuse;

bool has_rows_of_its_own(Verb verb) {
  return verb == Verb::allgather || verb == Verb::alltoall;
}

void check_array(const NamedCall& request, const ArrayView& array) {
  const std::string_view call = name(request.verb);
  if (name(array.dtype) == "?") refuse(call, "a tensor's dtype must be one of the known types");
  if (array.shape.size() > kMaxDimensions)
    refuse(call, text("a tensor has ", array.shape.size(), " dimensions; at most ", kMaxDimensions, " are allowed"));
  group::check_size(call, "tensor", count(array.shape), array.dtype);
  group::check_tensor(call, "tensor", array.tensor());
  if (array.shape.empty() && request.verb != Verb::allreduce && request.verb != Verb::broadcast)
    refuse(call, "a tensor needs a first dimension, which counts its rows");
}

void check_reduction(const NamedCall& request, DType dtype) {
  const std::string_view call = name(request.verb);
  group::check_op(call, request.op, dtype);
  const bool integers = is_integer(dtype);
  group::check_finite(call, "prescale", request.prescale);
  group::check_finite(call, "postscale", request.postscale);
  group::check_options(call,
                       {.wire = request.wire,
                        .prescale = integers ? 1 : request.prescale,
                        .postscale = integers ? 1 : request.postscale},
                       dtype);
}

// Checks that a GPU can carry out the call. The call must be an allreduce, broadcast or join. Integers must have no
// scaling factors, because the kernels multiply only floats.
void check_on_gpu(const NamedCall& request) {
  const std::string_view call = name(request.verb);
  if (request.verb != Verb::allreduce && request.verb != Verb::broadcast && request.verb != Verb::join)
    refuse(call, "tensors must be in host memory; only allreduce and broadcast take tensors in GPU memory");
  const bool scales = request.prescale != 1 || request.postscale != 1;
  for (const ArrayView& array : request.inputs)
    if (scales && !is_float(array.dtype))
      refuse(call, text("factors of ", name(array.dtype), " are not available in GPU memory"));
}

void check_outputs(const NamedCall& request) {
  const std::string_view call = name(request.verb);
  if (request.outputs.empty()) return;
  if (request.outputs.size() != request.inputs.size())
    refuse(call, text(request.inputs.size(), " inputs need as many outputs, not ", request.outputs.size()));
  for (std::size_t k = 0; k < request.inputs.size(); k++) {
    const Tensor input = request.inputs[k].tensor(), output = request.outputs[k].tensor();
    check_array(request, request.outputs[k]);
    group::check_pair(call, input, output);
    if (input.count != output.count)
      refuse(call, text("an input has ", input.count, " elements but its output ", output.count));
    group::check_overlap(call, input, output, input.data, output.data);
  }
}

void check_results_apart(const NamedCall& request) {
  std::vector<Tensor> results;
  for (const ArrayView& array : request.outputs.empty() ? request.inputs : request.outputs)
    results.push_back(array.tensor());
  group::check_apart(name(request.verb), results);
}

Sizes splits_of(const NamedCall& request, int ranks) {
  const std::uint64_t rows = request.inputs[0].shape[0];
  if (request.splits.empty()) {
    if (rows % std::uint64_t(ranks) != 0)
      refuse("alltoall", text("the ", rows, " rows cannot be divided among ", ranks, " ranks; give splits"));
    return Sizes(std::size_t(ranks), rows / std::uint64_t(ranks));
  }
  if (request.splits.size() != std::size_t(ranks))
    refuse("alltoall", text("there are ", request.splits.size(), " splits for ", ranks, " ranks"));
  std::uint64_t left = rows;
  for (const std::uint64_t split : request.splits) {
    if (split > left) refuse("alltoall", text("the splits add up to more than the ", rows, " rows"));
    left -= split;
  }
  if (left > 0) refuse("alltoall", text("the splits add up to ", rows - left, " of the ", rows, " rows"));
  return request.splits;
}

}  // namespace

std::pair<Description, Sizes> describe(const NamedCall& request, int ranks) {
  const std::string_view call = name(request.verb);
  const bool has_tensors = request.verb != Verb::barrier && request.verb != Verb::join;
  if (has_tensors == request.inputs.empty())
    refuse(call, has_tensors ? "there must be a tensor" : "there must be no tensor");
  if (request.verb == Verb::alltoall && request.inputs.size() != 1) refuse(call, "there must be one tensor");
  if (request.inputs.size() > kMaxArrays)
    refuse(call, text("there are ", request.inputs.size(), " tensors; at most ", kMaxArrays,
                      " are allowed: divide the list"));
  if (request.on_gpu) check_on_gpu(request);
  Description description{.verb = request.verb,
                          .op = reduces(request.verb) ? request.op : Op::sum,
                          .root = request.root,
                          .wire = request.wire.value_or(DType{}),
                          .prescale = request.prescale,
                          .postscale = request.postscale,
                          .on_gpu = request.on_gpu.has_value()};
  if (!reduces(request.verb) && (request.wire || request.prescale != 1 || request.postscale != 1))
    refuse(call, "wire and factors are for reductions");
  if (request.verb == Verb::broadcast) group::check_root(call, request.root, ranks);
  Sizes sizes;
  for (const ArrayView& array : request.inputs) {
    check_array(request, array);
    if (reduces(request.verb)) check_reduction(request, array.dtype);
    Array& described = description.arrays.emplace_back(Array{array.dtype, array.shape});
    if (request.verb == Verb::allgather) sizes.push_back(array.shape[0]);
    if (has_rows_of_its_own(request.verb)) described.shape[0] = 0;
  }
  check_outputs(request);
  if (request.verb == Verb::allreduce) check_results_apart(request);
  if (request.verb == Verb::alltoall) sizes = splits_of(request, ranks);
  return {description, sizes};
}

Sizes shares(std::uint64_t rows, int ranks) {
  Sizes all(std::size_t(ranks), rows / std::uint64_t(ranks));
  for (std::size_t rank = 0; rank < rows % std::uint64_t(ranks); rank++) all[rank]++;
  return all;
}

std::vector<Tensor> tensors_of(const std::vector<ArrayView>& arrays, const std::vector<std::size_t>& which) {
  std::vector<Tensor> list;
  for (const std::size_t k : which) list.push_back(arrays[k].tensor());
  return list;
}

}  // namespace anello::agenda
