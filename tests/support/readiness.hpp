// Checks whether a link can move bytes, in the same way as the thread that moves a group's data.
#pragma once
#include <chrono>

#include "ring/link/link.hpp"

namespace anello {

// Waits until the link can move bytes, for `limit` at most.
inline bool ready(link::Link& link, link::Wanted wanted, std::chrono::milliseconds limit) {
  link::Bell bell;
  link::Waiter waiter({}, bell);
  return !link.want(wanted, waiter) || waiter.sleep(limit);
}

}  // namespace anello
