#include "ring/trace/ledgers.hpp"

#include <utility>

namespace anello {

void Ledgers::add(std::shared_ptr<Ledger> ledger) {
  const std::lock_guard lock(mutex_);
  ledgers_[ledger->group()] = std::move(ledger);
}

void Ledgers::remove(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  const auto found = ledgers_.find(group);
  if (found == ledgers_.end()) return;
  of_ended_ += found->second->tally.totals();
  ledgers_.erase(found);
}

std::shared_ptr<Ledger> Ledgers::find(std::uint64_t group) const {
  const std::lock_guard lock(mutex_);
  const auto found = ledgers_.find(group);
  return found == ledgers_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Ledger>> Ledgers::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Ledger>> all;
  for (const auto& [group, ledger] : ledgers_) all.push_back(ledger);
  return all;
}

Totals Ledgers::totals() const {
  const std::lock_guard lock(mutex_);
  Totals totals = of_ended_;
  for (const auto& [group, ledger] : ledgers_) totals += ledger->tally.totals();
  return totals;
}

}  // namespace anello
