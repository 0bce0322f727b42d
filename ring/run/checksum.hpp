// What ranks compare to know that they have the same. Any thread.
#pragma once
#include <cstdint>

#include <anello/tensor.hpp>
#include "ring/base/bytes.hpp"
#include "ring/run/buffer.hpp"

namespace anello {

// Of the first `elems` elements, however the buffer is made up: the lower half of XXH3 (Yann Collet, xxHash). Never 0.
// One NaN is like another: which one a sum has may depend on the order of its operands.
std::uint32_t checksum(DType dtype, const Buffer& buffer, std::uint64_t elems);

}  // namespace anello
