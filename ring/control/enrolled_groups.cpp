#include "ring/control/enrolled_groups.hpp"

#include <chrono>
#include <utility>

namespace anello::control {

void EnrolledGroups::add(std::shared_ptr<const link::GroupInfo> group) {
  const MutexLock lock(mutex_);
  groups_[group->id].info = std::move(group);
}

void EnrolledGroups::remove(std::uint64_t group) {
  recorders_.remove(group);
  const MutexLock lock(mutex_);
  groups_.erase(group);
}

std::vector<std::shared_ptr<const link::GroupInfo>> EnrolledGroups::all() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const link::GroupInfo>> infos;
  for (const auto& [id, group] : groups_) infos.push_back(group.info);
  return infos;
}

void EnrolledGroups::ring_bells() const {
  for (const auto& group : all()) group->bell->ring();
}

std::optional<NamedSignature> EnrolledGroups::recall(std::uint64_t group, std::uint64_t sequence) const {
  const auto recorder = recorders_.find(group);
  return recorder ? recorder->begun(sequence) : std::nullopt;
}

void EnrolledGroups::check_departures(failure::FailureDetector& detector, failure::FailureDetector::Time now) const {
  for (const auto& group : all())
    if (const std::uint64_t end = detector.ends_at(group->id); end != UINT64_MAX)
      if (const auto recorder = recorders_.find(group->id))
        if (const auto signature = recorder->ends_at(end)) detector.needs(*signature, now);
}

failure::StragglerDetector::Groups EnrolledGroups::waits(const trace::TickClock::Scale& scale) const {
  failure::StragglerDetector::Groups groups;
  for (auto& [id, members, totals] : recorders_.totals_by_group()) {
    const auto slept = std::chrono::nanoseconds(scale.nanoseconds(totals.slept));
    auto& group = groups[id];
    group = {std::move(members), std::chrono::duration_cast<std::chrono::milliseconds>(slept)};
    for (const auto& kind : totals.kinds) group.completed += kind.operations;
  }
  return groups;
}

}  // namespace anello::control
