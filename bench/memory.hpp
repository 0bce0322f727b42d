// Memory for a benchmark: pages directly from the system. Each page has been written to once, so that it exists.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace anello::bench {

using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

// Throws Error{configuration} if the host has less than `bytes` bytes of memory available.
void refuse_if_short(std::size_t bytes);

// Returns new memory. Throws the error of refuse_if_short().
Memory pages(std::size_t bytes);

}  // namespace anello::bench
