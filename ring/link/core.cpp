#include "ring/link/core.hpp"

#include <sched.h>

#include <algorithm>

namespace anello::link {

void Core::give_up_core() {
  sched_yield();
}

std::chrono::nanoseconds YieldBudget::yield() {
  const Core::Time began = core_.now();
  core_.yield();
  const Core::Time now = core_.now();
  if (!is_long(now - began)) return now - began;
  refill(began);
  left_ -= now - began;
  return now - began;
}

bool YieldBudget::refill(Core::Time now) {
  left_ = std::min<std::chrono::nanoseconds>(kBurst, left_ + (now - counted_) / kTimeOverCost);
  counted_ = now;
  return left_.count() > 0;
}

}  // namespace anello::link
