#include "rendezvous/server/elastic_processes.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace anello::rendezvous {

using State = ElasticProcess::State;

std::size_t members_of(const ElasticProcesses& all) {
  return std::size_t(std::ranges::count_if(all, [](const auto& one) { return one.second.was_in_a_world(); }));
}

std::vector<MemberId> candidates_of(const ElasticProcesses& all, int max) {
  std::vector<std::tuple<bool, std::uint64_t, MemberId>> order;
  for (const auto& [id, process] : all)
    if (process.state == State::waiting && (process.was_in_a_world() || !process.missed))
      order.emplace_back(!process.was_in_a_world(), process.seat, id);
  std::ranges::sort(order);
  std::vector<MemberId> chosen;
  for (const auto& [is_new, seat, id] : order)
    if (!is_new || chosen.size() < std::size_t(max)) chosen.push_back(id);
  return chosen;
}

bool is_awaited(WorldPhase phase, const ElasticProcess& process) {
  switch (phase) {
    case WorldPhase::gathering:
      return process.state == State::starting || process.state == State::member || process.returns();
    case WorldPhase::starting:
      return process.state == State::starting;
    case WorldPhase::counting:
      return process.state == State::member && !process.commits;
    case WorldPhase::steady:
    case WorldPhase::announced:
      break;
  }
  return false;
}

std::vector<MemberId> awaited_of(WorldPhase phase, const ElasticProcesses& all) {
  std::vector<MemberId> ids;
  for (const auto& [id, process] : all)
    if (is_awaited(phase, process)) ids.push_back(id);
  return ids;
}

bool must_answer(WorldPhase phase, bool world_ends, const ElasticProcess& process) {
  return !process.was_in_a_world() || is_awaited(phase, process) || (world_ends && process.state == State::member);
}

std::vector<Silent> silent_of(const ElasticProcesses& all, const ElasticLimits& limits, bool has_state, Time now) {
  const auto is_silent = [&](const ElasticProcess& process, std::chrono::milliseconds limit) {
    return process.asked && now - process.answered >= limit;
  };
  // Processes that were suspended together need not have become silent at the same moment.
  const auto missed = std::min<std::chrono::milliseconds>(limits.silence, 2 * kInquiryInterval);
  const auto none_answers = [&] {
    return std::ranges::all_of(
        all, [&](const auto& one) { return !one.second.was_in_a_world() || is_silent(one.second, missed); });
  };
  const bool may_be_suspended = has_state && members_of(all) > 1 && none_answers();
  std::vector<Silent> silent;
  for (const auto& [id, process] : all) {
    const bool is_needed = may_be_suspended && process.was_in_a_world();
    const auto limit = is_needed ? std::max(limits.silence, limits.patience) : limits.silence;
    if (is_silent(process, limit)) silent.push_back({id, limit});
  }
  return silent;
}

std::optional<MemberId> keeper_of(const ElasticProcesses& all, const LeaveRules& rules) {
  const auto stays = [](const auto& one) { return !one.second.retires; };
  const auto has_state = [&](const auto& one) { return one.second.trained == rules.newest_world; };
  const auto keeps = [&](const auto& one) { return stays(one) && has_state(one); };
  const bool may_come = rules.awaits_newcomers || std::ranges::any_of(all, stays);
  if (!rules.state_matters || !may_come || std::ranges::any_of(all, keeps)) return {};
  const auto oldest = std::ranges::find_if(all, has_state);
  return oldest == all.end() ? std::nullopt : std::optional(oldest->first);
}

bool may_leave(const ElasticProcesses& all, MemberId id, const LeaveRules& rules) {
  const ElasticProcess& leaver = all.at(id);
  if (rules.at_successor && leaver.join.rank >= 0) return false;
  if (!leaver.was_in_a_world() || !rules.state_matters) return true;
  const auto has_entered_with_state = [&](const auto& one) {
    return !one.second.retires && one.second.trained == rules.newest_world && one.second.state == State::waiting;
  };
  return rules.ended_as_planned ? keeper_of(all, rules) != id : std::ranges::any_of(all, has_entered_with_state);
}

bool want_change(const ElasticProcesses& all, int max, std::optional<MemberId> keeper) {
  const auto retires = [keeper](const auto& one) { return one.second.retires && one.first != keeper; };
  return (members_of(all) < std::size_t(max) && !candidates_of(all, max).empty()) || std::ranges::any_of(all, retires);
}

}  // namespace anello::rendezvous
