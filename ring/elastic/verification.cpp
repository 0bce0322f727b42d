#include "ring/elastic/verification.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <anello/error.hpp>
#include <map>
#include <utility>

#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::elastic {
namespace {

struct Judgement {
  std::vector<Camp<Hash>> sides;  // two or more; the first two are shown
  int culprit;                    // -1 if it is not clear
  std::string reason;
};

Judgement judge(const std::map<int, Hash>& by_rank, const Decision& decision) {
  std::map<int, Hash> of_sources;
  for (const int rank : decision.sources) of_sources[rank] = by_rank.at(rank);
  if (const auto all = camps(of_sources); all.size() > 1) {
    const int culprit = rank_at_fault(all, of_sources.size());
    return {{all[0], odd_camp(all, of_sources.size())},
            culprit,
            "all of them have committed this revision, so their programs have computed different values: compute the "
            "value on one rank and broadcast it, or leave it out of the state; if the processors or GPUs of the ranks "
            "round differently, the states must not be compared (verify)"};
  }
  const int source = decision.sources.front();
  std::vector<Camp<Hash>> all = camps(by_rank);
  std::ranges::sort(all, {}, [&](const Camp<Hash>& camp) {
    return std::pair(!std::ranges::binary_search(camp.ranks, source), camp.ranks.front());
  });
  const int culprit = all[1].ranks.front();
  return {std::move(all), culprit,
          text(rank_list(decision.sources), " sent something else, or load() and save() do not agree")};
}

}  // namespace

void require_equal_entries(const std::vector<std::string>& names, const std::vector<std::vector<Hash>>& hashes,
                           const Decision& decision) {
  for (std::size_t entry = 0; entry < names.size(); entry++) {
    std::map<int, Hash> by_rank;
    for (std::size_t rank = 0; rank < hashes.size(); rank++) by_rank[int(rank)] = hashes[rank].at(entry);
    if (camps(by_rank).size() < 2) continue;
    const auto [sides, culprit, reason] = judge(by_rank, decision);
    throw Error(ErrorCode::diverged,
                text("entry '", names[entry], "' of the state differs at revision ", decision.revision, ": ",
                     who_has(sides[1].ranks), "hash ", hex(sides[1].value), ", ", who_has(sides[0].ranks), "hash ",
                     hex(sides[0].value), "; ", reason),
                culprit);
  }
}

}  // namespace anello::elastic
