// When a rank tries the rendezvous again: after pauses that become longer, until its deadline. Any thread.
#pragma once
#include <algorithm>
#include <chrono>

#include "ring/net/auth.hpp"

namespace anello::rendezvous {

inline constexpr std::chrono::milliseconds kFirstRest{50}, kMaxRest{2000};

inline std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point deadline) {
  const auto time = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(time, std::chrono::milliseconds(0));
}

// Returns a random time between half of `pause` and the whole `pause`, so that the ranks do not all connect at once.
inline std::chrono::milliseconds jittered(std::chrono::milliseconds pause) {
  const auto draw = static_cast<unsigned char>(net::random_bytes(1)[0]);
  return pause / 2 + pause * draw / 512;
}

}  // namespace anello::rendezvous
