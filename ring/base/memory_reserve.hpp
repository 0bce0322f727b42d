// A reserve of memory. It lets the process report that it has run out of memory. Any thread.
#pragma once

namespace anello {

// Allocates the reserve, unless it exists. Does nothing if there is not enough memory.
void keep_memory_reserve() noexcept;
// Frees the reserve for all later allocations.
void release_memory_reserve() noexcept;

}  // namespace anello
