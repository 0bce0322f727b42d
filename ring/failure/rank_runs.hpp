// Stores ranks as runs with equal steps, so that the members of a regular group of any size fit into a message. Pure.
#pragma once
#include <cstdint>
#include <vector>

namespace anello::failure {

// The `count` ranks first, first + step, ...
struct RankRun {
  std::int32_t first = 0, step = 0;
  std::uint32_t count = 0;
  friend bool operator==(const RankRun&, const RankRun&) = default;
};

// Splits the ranks into runs and keeps their order. Each run has at least two ranks; only the last one may have one.
std::vector<RankRun> runs_of(const std::vector<int>& ranks);

}  // namespace anello::failure
