#include "ring/trace/flight_recorders.hpp"

#include <utility>

namespace anello {

void FlightRecorders::add(std::shared_ptr<FlightRecorder> recorder) {
  const std::lock_guard lock(mutex_);
  recorders_[recorder->group()] = std::move(recorder);
}

void FlightRecorders::remove(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  const auto found = recorders_.find(group);
  if (found == recorders_.end()) return;
  of_ended_ += found->second->tally.totals();
  recorders_.erase(found);
}

std::shared_ptr<FlightRecorder> FlightRecorders::find(std::uint64_t group) const {
  const std::lock_guard lock(mutex_);
  const auto found = recorders_.find(group);
  return found == recorders_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<FlightRecorder>> FlightRecorders::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<FlightRecorder>> all;
  for (const auto& [group, recorder] : recorders_) all.push_back(recorder);
  return all;
}

Totals FlightRecorders::totals() const {
  const std::lock_guard lock(mutex_);
  Totals totals = of_ended_;
  for (const auto& [group, recorder] : recorders_) totals += recorder->tally.totals();
  return totals;
}

}  // namespace anello
