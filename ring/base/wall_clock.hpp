// The time of day, for people and for comparing the clocks of hosts. It may be changed at any moment, so do not measure
// durations with it. No other file reads this clock.
#pragma once
#include <chrono>
#include <cstdint>

namespace anello {

// Microseconds since 1970 (UTC).
inline std::int64_t wall_clock_us() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count();
}

}  // namespace anello
