// Memory of the process that is set aside for reporting that there is no more. Any thread.
#pragma once

namespace anello {

// Sets it aside, unless it is there. Without memory there is no reserve.
void keep_memory_reserve() noexcept;
// Gives it back to all who allocate.
void release_memory_reserve() noexcept;

}  // namespace anello
