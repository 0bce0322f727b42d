// The kernel of a fold: combines several sources in order. Pure; any thread.
#pragma once
#include <cstdint>

#include "ring/run/arithmetic.hpp"

namespace anello::run {

inline constexpr std::size_t kFoldBytes = 8 << 10;  // block size that stays in the first-level cache

// Returns the number of elements in a block. Sums of 16-bit elements are f32, so they need more memory.
inline std::uint64_t block_elems(const Arithmetic& arithmetic) {
  constexpr std::uint32_t kF32Shift = 2;
  return kFoldBytes >> (arithmetic.add_to_f32 ? kF32Shift : arithmetic.shift);
}

// Computes out[i] = source(0)[i] (op) source(1)[i] (op) ..., for at least two sources and at most one block. Calls
// source(k) once for each k, in order. `out` may be one of the sources. `partial`: memory for one block.
template <class Source>
void fold(const Arithmetic& arithmetic, std::uint32_t sources, Source source, std::byte* out, std::byte* partial,
          std::uint64_t elems) {
  if (arithmetic.add_to_f32) {
    arithmetic.to_f32(partial, source(0), elems);
    for (std::uint32_t k = 1; k < sources; k++) arithmetic.add_to_f32(partial, partial, source(k), elems);
    return arithmetic.from_f32(out, partial, elems);
  }
  const std::byte* left = source(0);
  for (std::uint32_t k = 1; k < sources; k++) {
    const std::byte* right = source(k);
    std::byte* to = k + 1 < sources ? partial : out;
    arithmetic.combine(to, left, right, elems);
    left = to;
  }
}

}  // namespace anello::run
