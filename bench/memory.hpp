// What a benchmark works on: pages straight from the system, all touched.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace anello::bench {

using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

// Throws Error{configuration} if the host has not as much.
void refuse_if_short(std::size_t bytes);

// The same.
Memory pages(std::size_t bytes);

}  // namespace anello::bench
