#include "rendezvous/server/assign.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

// The members of one host, as indices into the list of joiners.
using Members = std::vector<std::size_t>;

// Returns the members of each host. The hosts are in the order of their names, because the order of joining differs
// from start to start.
std::vector<Members> hosts_of(const std::vector<Join>& joined) {
  std::map<std::pair<std::string, std::string>, Members> by_name;
  for (std::size_t i = 0; i < joined.size(); i++) by_name[{joined[i].host, joined[i].machine}].push_back(i);
  std::vector<Members> hosts;
  for (auto& [name, members] : by_name) hosts.push_back(std::move(members));
  return hosts;
}

std::vector<int> ranks_of(const std::vector<Join>& joined, const std::vector<Members>& hosts) {
  std::vector<int> ranks;
  std::vector<bool> taken(joined.size());
  for (const Join& join : joined) {
    ranks.push_back(join.rank);
    if (join.rank < 0) continue;
    ANELLO_CHECK(std::size_t(join.rank) < taken.size() && !taken[std::size_t(join.rank)]);
    taken[std::size_t(join.rank)] = true;
  }
  std::size_t free = 0;
  for (Members host : hosts) {
    const auto wanted = [&](std::size_t i) { return joined[i].local_rank < 0 ? kMaxRanks : joined[i].local_rank; };
    std::stable_sort(host.begin(), host.end(), [&](std::size_t a, std::size_t b) { return wanted(a) < wanted(b); });
    for (const std::size_t i : host) {
      if (ranks[i] >= 0) continue;
      while (taken[free]) free++;
      ranks[i] = int(free++);
    }
  }
  return ranks;
}

bool local_ranks_given(const std::vector<Join>& joined, const Members& host) {
  std::set<int> given;
  for (const std::size_t i : host) given.insert(joined[i].local_rank);
  return given.size() == host.size() && *given.begin() == 0 && *given.rbegin() == int(host.size()) - 1;
}

// Returns the name under which a host is shown. Different hosts may have the same name; then the second one is shown as
// "localhost (node 1)", for example.
std::string shown_host(const std::string& name, std::set<std::string>& used, int node) {
  if (used.insert(name).second) return name;
  std::string other = text(name, " (node ", node, ")");
  while (!used.insert(other).second) other += "'";
  return other;
}

}  // namespace

std::vector<Assigned> assign(const std::vector<Join>& joined, std::uint32_t generation) {
  std::vector<Members> hosts = hosts_of(joined);
  const std::vector<int> ranks = ranks_of(joined, hosts);
  const auto by_rank = [&](std::size_t a, std::size_t b) { return ranks[a] < ranks[b]; };
  for (Members& host : hosts) std::sort(host.begin(), host.end(), by_rank);
  std::sort(hosts.begin(), hosts.end(), [&](const Members& a, const Members& b) { return by_rank(a[0], b[0]); });

  std::vector<Assigned> assigned(joined.size());
  std::set<std::string> used;
  for (std::size_t node = 0; node < hosts.size(); node++) {
    const Members& host = hosts[node];
    const bool given = local_ranks_given(joined, host);
    const std::string shown = shown_host(joined[host[0]].host, used, int(node));
    for (std::size_t at = 0; at < host.size(); at++) {
      const std::size_t i = host[at];
      assigned[i] = {generation,       ranks[i],  int(joined.size()), given ? joined[i].local_rank : int(at),
                     int(host.size()), int(node), int(hosts.size()),  shown};
    }
  }
  return assigned;
}

}  // namespace anello::rendezvous
