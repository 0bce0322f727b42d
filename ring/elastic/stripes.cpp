#include "ring/elastic/stripes.hpp"

#include <algorithm>
#include <map>

namespace anello::elastic {
namespace {

using RanksByNode = std::map<int, std::vector<int>>;

RanksByNode by_node(const std::vector<int>& ranks, const std::vector<int>& nodes) {
  RanksByNode all;
  for (const int rank : ranks) all[nodes[std::size_t(rank)]].push_back(rank);
  return all;
}

// Adds the stripes of these sources for these receivers. The k-th of n sources on the j-th of m hosts ends where the
// share (j + (k + 1) / n) / m of the blocks ends.
void divide(const RanksByNode& sources, const std::vector<int>& receivers, std::uint64_t bytes,
            std::vector<Stripe>& stripes) {
  const std::uint64_t blocks = (bytes + kStripeBlock - 1) / kStripeBlock;
  std::uint64_t before = 0, begin = 0;
  for (const auto& [node, ranks] : sources) {
    for (std::uint64_t k = 0; k < ranks.size(); k++) {
      const std::uint64_t share = before * ranks.size() + k + 1, shares = sources.size() * ranks.size();
      const std::uint64_t end = std::min(bytes, (blocks * share + shares - 1) / shares * kStripeBlock);
      if (end > begin) stripes.push_back({ranks[k], receivers, begin, end});
      begin = end;
    }
    before++;
  }
}

}  // namespace

std::vector<Stripe> stripes_of(const Decision& decision, const std::vector<int>& nodes, std::uint64_t bytes) {
  std::vector<Stripe> stripes;
  const RanksByNode sources = by_node(decision.sources, nodes);
  std::vector<int> others;  // receivers on hosts without a source
  for (const auto& [node, receivers] : by_node(decision.receivers, nodes))
    if (const auto found = sources.find(node); found != sources.end())
      divide({*found}, receivers, bytes, stripes);
    else
      others.insert(others.end(), receivers.begin(), receivers.end());
  std::ranges::sort(others);
  if (!others.empty()) divide(sources, others, bytes, stripes);
  return stripes;
}

}  // namespace anello::elastic
