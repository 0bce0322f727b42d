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
  // busbw / algbw, in the terms of nccl-tests: the bytes on the busiest link, divided by the bytes of the larger of a
  // rank's two buffers. This factor makes worlds of different sizes comparable.
  double (*bus_factor)(int world);
};

std::span<const Collective> collectives();

// One rank's tensors. If the operation has a root, it is rank 0. A rank that receives nothing has an empty output.
struct Tensors {
  Tensor input, output;
};

// Chooses a rank's two tensors from memory. Each argument `from`, `to` and `whole` has the size of the larger of the
// two tensors. out_of_place(): the input begins at the start of `from`, and the output at the start of `to`.
// in_place(): both lie in `whole`. Empty if the operation cannot be called in this way.
std::optional<Tensors> out_of_place(Kind kind, Tensor from, Tensor to, int rank, int world);
std::optional<Tensors> in_place(Kind kind, Tensor whole, int rank, int world);

// Returns the number of wrong elements of a rank's output. Pattern must have filled the rank's input.
std::uint64_t count_wrong(Kind kind, ConstTensor output, Op op, int rank, int world);

}  // namespace anello::bench
