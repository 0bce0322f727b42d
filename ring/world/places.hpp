// Where the ranks of a world run: their hosts, and which ranks share memory. Equal on all ranks. Pure.
#pragma once
#include <string>
#include <vector>

#include "ring/algorithms/selection.hpp"

namespace anello::world {

struct Places {
  std::vector<std::string> hosts;     // by rank
  std::vector<int> nodes;             // by rank: the number of its host
  std::vector<std::string> memories;  // by rank; ranks with equal texts can share memory
  // By rank: true if the rank's host is one of several on a machine, and this machine has fewer cores than ranks.
  std::vector<bool> on_shared_machines;

  std::vector<int> nodes_of(const std::vector<int>& members) const;
  // `facts`: the facts of the world. Returns them with the changes that are needed for a group of these members.
  algorithms::Facts facts_of(const std::vector<int>& members, algorithms::Facts facts) const;
};

}  // namespace anello::world
