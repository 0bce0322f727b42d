// Where the ranks of a world run: their hosts, and which ranks share memory. Equal on all ranks. Pure.
#pragma once
#include <string>
#include <vector>

#include "ring/algorithms/selection.hpp"

namespace anello::world {

struct Places {
  std::vector<std::string> hosts;        // by rank
  std::vector<int> nodes;                // by rank: the number of its host
  std::vector<std::string> memories;     // by rank; ranks with equal texts can share memory
  std::vector<bool> on_shared_machines;  // by rank: true if its host shares a machine that has fewer cores than ranks

  std::vector<int> nodes_of(const std::vector<int>& members) const;
  algorithms::Facts facts_of(const std::vector<int>& members,
                             algorithms::Facts facts) const;  // completes the facts of the world
};

}  // namespace anello::world
