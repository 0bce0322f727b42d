// Ranks as runs with equal steps, so that the members of a regular group of any size fit into a message. Pure.
#pragma once
#include <cstdint>
#include <vector>

namespace anello::failure {

// The ranks first, first + step, ...
struct RankRun {
  std::int32_t first = 0, step = 0;
  std::uint32_t count = 0;
  friend bool operator==(const RankRun&, const RankRun&) = default;
};

// Keeps the order. Each run has two ranks or more, except the last one.
std::vector<RankRun> runs_of(const std::vector<int>& ranks);

}  // namespace anello::failure
