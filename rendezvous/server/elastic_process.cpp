#include "rendezvous/server/elastic_process.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/server/assign.hpp"

namespace anello::rendezvous {
namespace {

using Host = std::pair<std::string, std::string>;
using Age = std::pair<std::uint32_t, std::uint64_t>;

Host host_of(const Join& join) {
  return {join.host, join.machine};
}

// Processes with the same first world are ordered by the numbers that their launcher gave them.
Age age_of(const ElasticProcess& process) {
  return {process.since, process.join.place >= 0 ? std::uint64_t(process.join.place) : process.seat};
}

std::vector<ElasticProcess*> by_seniority(std::vector<ElasticProcess*> processes) {
  std::map<Host, Age> oldest;
  for (const ElasticProcess* process : processes) {
    const auto [at, is_first] = oldest.emplace(host_of(process->join), age_of(*process));
    if (!is_first) at->second = std::min(at->second, age_of(*process));
  }
  std::ranges::sort(processes, {}, [&](const ElasticProcess* process) {
    return std::make_pair(oldest.at(host_of(process->join)), age_of(*process));
  });
  return processes;
}

}  // namespace

void give_ranks(const std::vector<ElasticProcess*>& chosen, const std::vector<const ElasticProcess*>& others) {
  std::map<Host, std::set<int>> taken;
  for (const ElasticProcess* process : others)
    if (process->local_rank >= 0) taken[host_of(process->join)].insert(process->local_rank);
  int rank = 0;
  for (ElasticProcess* process : by_seniority(chosen)) {
    process->join.rank = rank++;
    if (process->local_rank >= 0) continue;
    std::set<int>& numbers = taken[host_of(process->join)];
    int own = std::max(process->join.local_rank, 0);
    if (numbers.contains(own)) own = 0;
    while (numbers.contains(own)) own++;
    process->local_rank = *numbers.insert(own).first;
  }
}

// Replaces the local ranks that assign() gives, because assign() numbers the local ranks of a host anew if some numbers
// are missing.
std::vector<Assigned> places_of(const std::vector<ElasticProcess*>& chosen, std::uint32_t generation) {
  std::vector<Join> joins;
  std::map<Host, int> local_sizes;
  for (const ElasticProcess* process : chosen) {
    joins.push_back(process->join);
    int& local_size = local_sizes[host_of(process->join)];
    local_size = std::max(local_size, process->local_rank + 1);
  }
  std::vector<Assigned> assigned = assign(joins, generation);
  for (std::size_t i = 0; i < chosen.size(); i++) {
    assigned[i].local_rank = chosen[i]->local_rank;
    assigned[i].local_size = local_sizes.at(host_of(joins[i]));
  }
  return assigned;
}

}  // namespace anello::rendezvous
