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
  // busbw / algbw: the bytes on the busiest link for each byte of the larger buffer, so that worlds of different sizes
  // can be compared.
  double (*bus_factor)(int world);
};

std::span<const Collective> collectives();

// One rank's tensors. Rank 0 is the root, if there is one; a rank that receives nothing has an empty output.
struct Tensors {
  Tensor input, output;
};

// The buffers have the size of the larger of a rank's two tensors. Out of place, the input begins at the start of
// `from` and the output at the start of `to`; in place both lie in `whole`. Nothing if the operation cannot be called
// in that way.
std::optional<Tensors> out_of_place(Kind kind, Tensor from, Tensor to, int rank, int world);
std::optional<Tensors> in_place(Kind kind, Tensor whole, int rank, int world);

// Counts the wrong elements of a rank's output after its input was filled with Pattern.
std::uint64_t count_wrong(Kind kind, ConstTensor output, Op op, int rank, int world);

}  // namespace anello::bench
