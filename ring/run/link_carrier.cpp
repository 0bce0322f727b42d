#include "ring/run/link_carrier.hpp"

#include <algorithm>

#include "ring/link/memory_link.hpp"

namespace anello::run {

bool LinkCarrier::want(link::Waiter& waiter) {
  bool may_sleep = true;
  each_wanted([&](link::Link& link, link::Wanted wanted) { may_sleep &= link.want(wanted, waiter); });
  return may_sleep;
}

std::vector<int> LinkCarrier::awaited() const {
  std::vector<int> peers;
  each_wanted([&](const link::Link& link, link::Wanted) {
    peers.push_back(int(std::ranges::find(links_, &link) - links_.begin()));
  });
  return peers;
}

void LinkCarrier::give_up() {
  for (link::Link* const link : links_)
    if (link::MemoryLink* const memory = link ? link->memory() : nullptr) memory->revoke();
}

}  // namespace anello::run
