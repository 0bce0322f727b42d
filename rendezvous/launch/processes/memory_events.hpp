// Counts how often the kernel has killed a process for lack of memory.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace anello::launch {

// Returns the count for this process's control group, or for this host if the group's count cannot be read. Returns
// nothing if neither count can be read.
std::optional<std::uint64_t> out_of_memory_kills();

// Returns the number after `oom_kill` in the text of a file such as memory.events.
std::optional<std::uint64_t> kills_in(const std::string& events);

}  // namespace anello::launch
