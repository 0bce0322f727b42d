// Parts of a buffer that are not equal: none for some ranks, more than `count` for others.
#pragma once
#include <cstdint>
#include <vector>

namespace anello {

// Different for different `seed`s.
inline std::vector<std::uint64_t> uneven_counts(int world, std::uint64_t count, int seed = 0) {
  std::vector<std::uint64_t> counts;
  for (int rank = 0; rank < world; rank++) counts.push_back(std::uint64_t((3 * rank + seed + 2) % 4) * (count + 1) / 2);
  return counts;
}

// Of what comes from each rank, where rank r sends uneven_counts(world, count, r).
inline std::vector<std::uint64_t> uneven_received(int world, std::uint64_t count, int rank) {
  std::vector<std::uint64_t> counts;
  for (int from = 0; from < world; from++) counts.push_back(uneven_counts(world, count, from)[std::size_t(rank)]);
  return counts;
}

}  // namespace anello
