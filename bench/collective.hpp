// The operations that can be measured, one row for each, and the tensors for each operation. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "ring/base/signature.hpp"

namespace anello::bench {

struct Collective {
  Kind kind;
  std::string_view name, sentence;
  bool reduces;
  // busbw / algbw, in the terms of nccl-tests: the bytes on the busiest link, divided by the bytes of the larger
  // buffer. With this factor, worlds of different sizes can be compared.
  double (*bus_factor)(int world);
};

std::span<const Collective> collectives();

// One rank's tensors. Rank 0 is the root, if there is one; a rank that receives nothing has an empty output.
struct Tensors {
  Tensor input, output;
};

// Each buffer has the size of the larger of a rank's two tensors. out_of_place(): the input begins at the start of
// `from`, and the output at the start of `to`. in_place(): both lie in `whole`. Nothing if the operation has no such
// call.
std::optional<Tensors> out_of_place(Kind kind, Tensor from, Tensor to, int rank, int world);
std::optional<Tensors> in_place(Kind kind, Tensor whole, int rank, int world);

// Counts the wrong elements of a rank's output. Its input must have been filled by Pattern.
std::uint64_t count_wrong(Kind kind, ConstTensor output, Op op, int rank, int world);

}  // namespace anello::bench
