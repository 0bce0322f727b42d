// Unequal parts of a buffer: some ranks have an empty part, and others have more than `count` elements.
#pragma once
#include <cstdint>
#include <vector>

namespace anello {

// Different seeds give different counts.
inline std::vector<std::uint64_t> uneven_counts(int world, std::uint64_t count, int seed = 0) {
  std::vector<std::uint64_t> counts;
  for (int rank = 0; rank < world; rank++) counts.push_back(std::uint64_t((3 * rank + seed + 2) % 4) * (count + 1) / 2);
  return counts;
}

// The counts that this rank receives from each rank r, which sends uneven_counts(world, count, r).
inline std::vector<std::uint64_t> uneven_received(int world, std::uint64_t count, int rank) {
  std::vector<std::uint64_t> counts;
  for (int from = 0; from < world; from++) counts.push_back(uneven_counts(world, count, from)[std::size_t(rank)]);
  return counts;
}

}  // namespace anello
