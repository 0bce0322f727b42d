// Whether something can move on a link, as the thread that moves a group's data finds out.
#pragma once
#include <chrono>

#include "ring/link/link.hpp"

namespace anello {

// Waits for it, `limit` at most.
inline bool ready(link::Link& link, link::Wanted wanted, std::chrono::milliseconds limit) {
  link::Bell bell;
  link::Waiter waiter({}, bell);
  return !link.want(wanted, waiter) || waiter.sleep(limit);
}

}  // namespace anello
