// How often the kernel has killed a process for lack of memory.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace anello::launch {

// In this process's control group, or on this host if the group's number cannot be read. Nothing if neither can.
std::optional<std::uint64_t> out_of_memory_kills();

// From the text of a file such as memory.events: the number behind `oom_kill`.
std::optional<std::uint64_t> kills_in(const std::string& events);

}  // namespace anello::launch
