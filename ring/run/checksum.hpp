// The checksum by which ranks compare their results. Any thread.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>

#include "ring/base/bytes.hpp"
#include "ring/run/buffer.hpp"

namespace anello::run {

// Whether all NaNs count as equal: which NaN a sum has may depend on the order of its operands.
enum class Nans { as_they_are, alike };

// Returns the checksum of the first `elems` elements, whichever pieces the buffer has: the lower half of XXH3 (Yann
// Collet, xxHash). Never 0.
std::uint32_t checksum(DType dtype, const Buffer& buffer, std::uint64_t elems, Nans nans);

}  // namespace anello::run
