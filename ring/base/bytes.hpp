// Runs of memory. They do not own the memory.
#pragma once
#include <cstddef>
#include <span>

namespace anello {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

}  // namespace anello
