// The operations that can be measured, one row for each. Pure data.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "bench/library.hpp"

namespace anello::bench {

struct Collective {
  std::string_view name, sentence;
  // busbw / algbw: the bytes that the busiest link carries for each byte of the buffer, so that worlds of different
  // sizes can be compared.
  double (*bus_factor)(int world);
  Library::Call (*prepare)(Library& library, ConstTensor input, Tensor output, Op op);
};

std::span<const Collective> collectives();

}  // namespace anello::bench
