#include "rendezvous/server/newcomers.hpp"

#include <algorithm>

namespace anello::rendezvous {

// A process that has joined enters a moment later, so it is on its way until then.
std::optional<Time> Newcomers::wait_until(const ElasticProcesses& all, int max) const {
  const auto retires = [](const auto& one) { return one.second.retires; };
  if (std::ranges::any_of(all, retires)) return {};
  const std::vector<MemberId> ready = candidates_of(all, max);
  if (ready.empty() || members_of(all) + ready.size() >= std::size_t(max)) return {};
  const auto arrives = [](const auto& one) {
    return one.second.state == ElasticProcess::State::arrived && !one.second.missed;
  };
  if (expected_ == 0 && std::ranges::none_of(all, arrives)) return {};
  const auto entered = [&](MemberId id) { return all.at(id).entered; };
  return all.at(std::ranges::min(ready, {}, entered)).entered + kLimit;
}

}  // namespace anello::rendezvous
