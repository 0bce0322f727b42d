#include "ring/failure/conflict.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <functional>
#include <set>
#include <utility>

#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::failure {
namespace {

constexpr std::size_t kMaxCamps = 4;  // maximum number of camps that are named

// Returns the name if all these calls have the same name, otherwise an empty text. Calls may be equal although their
// names differ.
std::string common_name(const std::vector<int>& ranks, const std::map<int, NamedSignature>& calls) {
  std::string name;
  for (const int rank : ranks) {
    const std::string& its = calls.at(rank).name;
    if (its.empty() || its == name) continue;
    if (!name.empty()) return {};
    name = its;
  }
  return name;
}

std::string further(const std::vector<Camp<NamedSignature>>& all) {
  std::string out;
  for (std::size_t k = 2; k < std::min(all.size(), kMaxCamps); k++)
    out += ", " + who_calls(all[k].ranks) + describe(all[k].value);
  return out + (all.size() > kMaxCamps ? ", and others call something else" : "");
}

}  // namespace

bool Conflict::add(int rank, const NamedSignature& call) {
  return calls.try_emplace(rank, call).second;
}

bool Conflict::exists() const {
  return std::ranges::any_of(calls, [&](const auto& each) { return !(each.second == calls.begin()->second); });
}

bool Conflict::has_majority() const {
  return anello::has_majority(camps(calls), members);
}

Verdict judge(const Conflict& conflict) {
  std::vector<Camp<NamedSignature>> all = camps(conflict.calls);
  for (Camp<NamedSignature>& camp : all) camp.value.name = common_name(camp.ranks, conflict.calls);
  const bool is_clear = has_majority(all, conflict.members);
  const int culprit = rank_at_fault(all, conflict.members);
  const auto by_lowest = [](const auto& a, const auto& b) { return a.ranks.front() < b.ranks.front(); };
  const auto is_blamed = [&](const auto& camp) { return camp.ranks.front() == culprit; };
  if (const auto blamed = std::ranges::find_if(all, is_blamed); blamed != all.end())
    std::rotate(all.begin(), blamed, blamed + 1);  // names the culprit's camp before the majority's camp
  else
    std::ranges::sort(all, by_lowest);
  std::string why = conflict.group.empty() ? "" : "in " + conflict.group + " ";
  why += difference(all[0].ranks, all[0].value, all[1].ranks, all[1].value) + further(all);
  if (is_clear) return {ErrorCode::mismatch, culprit, why};
  if (!conflict.missing.empty()) why += "; " + who_has(conflict.missing) + "not called it";
  return {ErrorCode::mismatch, -1, why + "; no call has a majority, so it is not clear which call is wrong"};
}

Verdict judge(const Contradictions& contradictions, Verdict shown) {
  std::map<int, std::set<int>> others;
  for (const auto& [rank, contradicted] : contradictions)
    for (const int other : contradicted) {
      others[rank].insert(other);
      others[other].insert(rank);
    }
  // For each rank: the number of ranks that it contradicts, and the rank itself.
  std::vector<std::pair<std::size_t, int>> most;
  for (const auto& [rank, its] : others) most.emplace_back(its.size(), rank);
  std::ranges::sort(most, std::greater());
  if (most.size() < 2 || most[0].first == most[1].first) {
    shown.message += "; it is not clear which rank is wrong";
    return shown;
  }
  shown.culprit = most[0].second;
  shown.message += text("; rank ", shown.culprit, " contradicts ", most[0].first, " ranks, more than any other");
  return shown;
}

}  // namespace anello::failure
