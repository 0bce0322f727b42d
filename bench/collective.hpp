// The operations that can be measured, a row each. Pure data.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "bench/library.hpp"

namespace anello::bench {

struct Collective {
  std::string_view name, sentence;
  // busbw / algbw: what the busiest wire carries for every byte of the buffer, so that worlds of all sizes compare.
  double (*bus_factor)(int world);
  Library::Call (*prepare)(Library& library, ConstTensor input, Tensor output, Op op);
};

std::span<const Collective> collectives();

}  // namespace anello::bench
