// Distributions of ranks over hosts, for tests: blocks of consecutive ranks, round robin, and hosts of unequal sizes.
// Pure.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"

namespace anello {

struct Layout {
  std::string name;
  std::vector<int> hosts;  // by rank

  int world() const { return int(hosts.size()); }
  int count() const { return 1 + *std::ranges::max_element(hosts); }
};

inline Layout in_blocks(const std::vector<int>& sizes) {
  Layout layout;
  for (std::size_t host = 0; host < sizes.size(); host++) {
    layout.name += text(host == 0 ? "" : "+", sizes[host]);
    layout.hosts.insert(layout.hosts.end(), std::size_t(sizes[host]), int(host));
  }
  return layout;
}

inline Layout in_blocks(int hosts, int ranks_per_host) {
  return in_blocks(std::vector<int>(std::size_t(hosts), ranks_per_host));
}

inline Layout round_robin(int hosts, int ranks_per_host) {
  Layout layout{text(hosts, "x", ranks_per_host, " round robin"), {}};
  for (int rank = 0; rank < hosts * ranks_per_host; rank++) layout.hosts.push_back(rank % hosts);
  return layout;
}

// Keeps the hosts, and numbers the ranks at random.
inline Layout shuffled(Layout layout, std::uint64_t seed) {
  Random random(seed);
  random.shuffle(layout.hosts);
  layout.name += " shuffled";
  return layout;
}

}  // namespace anello
