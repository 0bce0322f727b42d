// The time of day as text, for the beginning of each line of output (--timestamp). Any thread.
#pragma once
#include <chrono>
#include <cstddef>
#include <string>

namespace anello::launch {

// Returns the universal time (UTC), such as "2026-01-31T23:59:59.123Z ".
std::string timestamp(std::chrono::steady_clock::time_point when);
inline constexpr std::size_t kTimestampColumns = 25;

}  // namespace anello::launch
