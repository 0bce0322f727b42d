#include "ring/world/core_sharing.hpp"

#include <algorithm>

namespace anello::world {

void CoreSharing::Load::add(const Cores& of_rank) {
  const double before = cores.without_quota().count();
  if (ranks++ == 0)
    cores = of_rank;
  else
    cores.unite(of_rank);
  const bool has_new_core = cores.without_quota().count() > before;
  is_bound &= of_rank.without_quota().count() == 1 && (has_new_core || of_rank.allowed == last);
  last = of_rank.allowed;
}

void CoreSharing::add(int host, const std::string& kernel, const Cores& cores) {
  hosts_[host].add(cores);
  if (kernel.empty()) return;
  Machine& machine = machines_[kernel];
  machine.load.add(cores.without_quota());  // without the quota, because each container may have its own quota
  machine.hosts.insert(host);
}

bool CoreSharing::on_host(int host) const {
  return hosts_.at(host).is_too_much() || on_shared_machine(host);
}

bool CoreSharing::on_some_host() const {
  return std::ranges::any_of(hosts_, [](const auto& each) { return each.second.is_too_much(); });
}

bool CoreSharing::ranks_are_bound() const {
  return std::ranges::all_of(
      hosts_, [](const auto& each) { return each.second.is_bound && each.second.cores.without_quota().count() > 1; });
}

bool CoreSharing::on_shared_machine(int host) const {
  return std::ranges::any_of(
      machines_, [host](const auto& each) { return each.second.is_shared() && each.second.hosts.contains(host); });
}

}  // namespace anello::world
