#include "ring/trace/flight_recorders.hpp"

#include <utility>

namespace anello::trace {

void FlightRecorders::add(std::uint64_t group, std::string name, std::vector<int> members,
                          std::shared_ptr<FlightRecorder> recorder) {
  const MutexLock lock(mutex_);
  groups_[group] = {std::move(name), std::move(members), std::move(recorder)};
}

void FlightRecorders::remove(std::uint64_t group) {
  const MutexLock lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  of_ended_ += found->second.recorder->tally.totals();
  groups_.erase(found);
}

std::shared_ptr<FlightRecorder> FlightRecorders::find(std::uint64_t group) const {
  const MutexLock lock(mutex_);
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : found->second.recorder;
}

std::vector<History> FlightRecorders::histories() const {
  const MutexLock lock(mutex_);
  std::vector<History> histories;
  for (const auto& [id, group] : groups_)
    histories.push_back({id, group.name, group.members, group.recorder->records()});
  return histories;
}

std::vector<FlightRecorders::GroupTotals> FlightRecorders::totals_by_group() const {
  const MutexLock lock(mutex_);
  std::vector<GroupTotals> all;
  for (const auto& [id, group] : groups_) all.push_back({id, group.members, group.recorder->tally.totals()});
  return all;
}

Totals FlightRecorders::totals() const {
  const MutexLock lock(mutex_);
  Totals totals = of_ended_;
  for (const auto& [id, group] : groups_) totals += group.recorder->tally.totals();
  return totals;
}

}  // namespace anello::trace
