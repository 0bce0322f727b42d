#include "ring/algorithms/partners.hpp"

#include <algorithm>
#include <numeric>

namespace anello::algorithms {
namespace {

int place_among(std::span<const int> ranks, int rank) {
  return int(std::ranges::lower_bound(ranks, rank) - ranks.begin());
}

// Returns the index of the owner's partner on a host that has `ranks` ranks.
int place_of_partner(const Hosts& hosts, int owner, int ranks) {
  const std::span<const int> mates = hosts.mates(owner);
  return place_among(mates, owner) * ranks / int(mates.size());
}

}  // namespace

Partners::Partners(const Hosts& hosts, int rank)
    : hosts_(hosts), host_(hosts.of(rank)), count_(hosts.count()), place_(place_among(hosts.mates(rank), rank)) {}

int Partners::of(int owner, int host) const {
  const std::span<const int> there = hosts_.ranks(host);
  return there[std::size_t(place_of_partner(hosts_, owner, int(there.size())))];
}

std::vector<int> Partners::owners(int host, int begin, int end) const {
  const int ranks = int(hosts_.ranks(host_).size());
  std::vector<int> some;
  for (const int owner : hosts_.ranks(host))
    if (const int place = place_of_partner(hosts_, owner, ranks); place >= begin && place < end) some.push_back(owner);
  return some;
}

std::vector<int> Partners::owners(int host) const {
  return owners(host, place_, place_ + 1);
}

std::vector<int> owners_in_grid(int begin, int end) {
  std::vector<int> owners(std::size_t(end - begin));
  std::iota(owners.begin(), owners.end(), begin);
  return owners;
}

}  // namespace anello::algorithms
