// The checksum by which ranks compare their results. Any thread.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>

#include "ring/base/bytes.hpp"
#include "ring/run/buffer.hpp"

namespace anello::run {

// `alike`: all NaNs count as equal, because the order of the operands may decide which NaN a sum has.
enum class Nans { as_they_are, alike };

// Returns the checksum of the first `elems` elements; it does not depend on how the buffer is split into pieces. It is
// the lower half of XXH3 (Yann Collet, xxHash), and never 0.
std::uint32_t checksum(DType dtype, const Buffer& buffer, std::uint64_t elems, Nans nans);

}  // namespace anello::run
