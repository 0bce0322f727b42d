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
  return core_.now() - began;
}

void YieldBudget::found_after(std::chrono::nanoseconds yield) {
  if (is_long(yield)) {
    refill(core_.now());
    left_ -= yield;
  } else if (yield < kShortYield) {
    left_ = std::min<std::chrono::nanoseconds>(kBurst, left_ + kSavedSleep);
  }
}

bool YieldBudget::refill(Core::Time now) {
  left_ = std::min<std::chrono::nanoseconds>(kBurst, left_ + (now - counted_) / kTimeOverCost);
  counted_ = now;
  return left_.count() > 0;
}

}  // namespace anello::link
