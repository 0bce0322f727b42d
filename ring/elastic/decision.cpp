#include "ring/elastic/decision.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <anello/error.hpp>
#include <map>
#include <optional>

#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::elastic {
namespace {

bool is_holder(const Report& report) {
  return report.holds && report.clean;
}

std::optional<std::uint64_t> newest_revision(const std::vector<Report>& reports) {
  std::optional<std::uint64_t> newest;
  for (const Report& each : reports)
    if (is_holder(each)) newest = std::max(newest.value_or(0), each.revision);
  return newest;
}

[[noreturn]] void refuse_without_source(const std::vector<Report>& reports) {
  std::vector<int> unclean;
  for (std::size_t rank = 0; rank < reports.size(); rank++)
    if (!reports[rank].clean) unclean.push_back(int(rank));
  const std::string others = unclean.empty() ? "" : "; " + who_has(unclean) + "only a part of it";
  throw Error(ErrorCode::rendezvous,
              "all ranks that had the complete state have ended" + others + "; start the job again from a checkpoint");
}

// In a job that goes on, a rank that differs from the source is at fault, because the others can go on without it. In a
// job that begins, the ranks that differ from the majority are at fault.
void require_equal_manifests(const std::vector<Report>& reports, const Decision& decision) {
  std::map<int, Hash> manifests;
  for (std::size_t rank = 0; rank < reports.size(); rank++) manifests[int(rank)] = reports[rank].manifest;
  const std::vector<Camp<Hash>> all = camps(manifests);
  if (all.size() < 2) return;
  std::vector<int> odd = odd_camp(all, reports.size()).ranks;
  int at_fault = rank_at_fault(all, reports.size());
  if (!decision.fresh) {
    const Hash& right = manifests.at(decision.sources.front());
    odd.clear();
    for (const auto& [rank, manifest] : manifests)
      if (!(manifest == right)) odd.push_back(rank);
    at_fault = odd.front();
  }
  std::vector<int> others;
  for (const auto& [rank, manifest] : manifests)
    if (!std::ranges::binary_search(odd, rank)) others.push_back(rank);
  throw Error(ErrorCode::mismatch, who_has(odd) + "other entries in the state than " + rank_list(others), at_fault);
}

}  // namespace

Decision decide(const std::vector<Report>& reports, bool begun) {
  const std::optional<std::uint64_t> newest = newest_revision(reports);
  if (!newest && (begun || !reports.front().clean)) refuse_without_source(reports);
  Decision decision{.revision = newest.value_or(0), .fresh = !newest};
  for (std::size_t rank = 0; rank < reports.size(); rank++) {
    const Report& its = reports[rank];
    const bool is_first = decision.fresh && rank == 0;
    const bool has_newest = is_holder(its) && its.revision == newest;
    (is_first || has_newest ? decision.sources : decision.receivers).push_back(int(rank));
  }
  require_equal_manifests(reports, decision);
  return decision;
}

}  // namespace anello::elastic
