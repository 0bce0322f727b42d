// The operations that can be measured, one row for each, and the tensors that they are measured with. Pure.
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
  // busbw / algbw: the bytes that the busiest link carries for each byte of the larger buffer, so that worlds of
  // different sizes can be compared.
  double (*bus_factor)(int world);
};

std::span<const Collective> collectives();

// One rank's tensors. Rank 0 is the root, where there is one; a rank that gets nothing has an empty output.
struct Tensors {
  Tensor input, output;
};

// `whole`: the larger buffer, which every rank has one of for each placement. Out of place, the input begins `from` and
// the output `to`; in place both lie in `from`. Nothing if the operation cannot be called like that.
std::optional<Tensors> out_of_place(Kind kind, Tensor from, Tensor to, int rank, int world);
std::optional<Tensors> in_place(Kind kind, Tensor whole, int rank, int world);

// How many elements of a rank's output are wrong after its input was filled with Pattern.
std::uint64_t count_wrong(Kind kind, ConstTensor output, Op op, int rank, int world);

}  // namespace anello::bench
