// The checksum by which ranks compare their results. Any thread.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>

#include "ring/base/bytes.hpp"
#include "ring/run/buffer.hpp"

namespace anello::run {

// Which NaN a sum has may depend on the order of its operands.
enum class Nans { as_they_are, alike };

// Of the first `elems` elements, however the buffer is made up: the lower half of XXH3 (Yann Collet, xxHash). Never 0.
std::uint32_t checksum(DType dtype, const Buffer& buffer, std::uint64_t elems, Nans nans);

}  // namespace anello::run
