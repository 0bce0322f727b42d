#include "ring/world/places.hpp"

#include <algorithm>
#include <set>

namespace anello::world {

std::vector<int> Places::nodes_of(const std::vector<int>& members) const {
  std::vector<int> out;
  for (const int member : members) out.push_back(nodes[std::size_t(member)]);
  return out;
}

algorithms::Facts Places::facts_of(const std::vector<int>& members, algorithms::Facts facts) const {
  const std::vector<int> its_nodes = nodes_of(members);
  std::set<std::string> its_memories;
  for (const int member : members) its_memories.insert(memories[std::size_t(member)]);
  const auto on_shared_machine = [this](int member) { return on_shared_machines[std::size_t(member)]; };
  facts.world = int(members.size());
  facts.hosts = int(std::set<int>(its_nodes.begin(), its_nodes.end()).size());
  facts.memory = its_memories.size() == 1 && !its_memories.contains("");
  facts.hosts_share_cores = facts.hosts > 1 && std::ranges::all_of(members, on_shared_machine);
  return facts;
}

}  // namespace anello::world
