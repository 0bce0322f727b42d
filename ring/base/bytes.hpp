// Runs of memory, borrowed.
#pragma once
#include <cstddef>
#include <span>

namespace anello {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

}  // namespace anello
