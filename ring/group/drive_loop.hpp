// How a thread that waits for something moves data meanwhile: it takes the baton, moves what can be moved, spins and
// yields while nothing can, and then sleeps.
#pragma once
#include <algorithm>
#include <chrono>

#include "ring/group/baton.hpp"
#include "ring/link/waiter.hpp"

namespace anello::group {

// Shortens a sleep so that it ends at the time `until`.
inline std::chrono::milliseconds no_longer_than(const Until& until, std::chrono::milliseconds sleep) {
  using std::chrono::milliseconds;
  if (!until) return sleep;
  const auto left = std::chrono::ceil<milliseconds>(*until - std::chrono::steady_clock::now());
  return std::clamp(left, milliseconds(0), sleep);
}

// Until `done`, or the time `until`: takes the baton when it is free, and then calls move() again and again, until that
// returns false or the baton is closed; then calls release(), which must release it. The lock is held at each call;
// clang does not see that it is the lock of the mutex that these functions require.
template <class Move, class Release>
void drive(Baton& baton, Baton::Lock& lock, const std::atomic<bool>& done, const Until& until, Move move,
           Release release) ANELLO_UNCHECKED {
  while (baton.acquire(lock, done, until)) {
    const auto goes_on = [&] {
      return !done.load(std::memory_order_relaxed) && baton.closed() == 0 && !has_passed(until);
    };
    while (goes_on() && move()) continue;
    release();
    if (has_passed(until)) break;
  }
}

// Moves what can be moved at once. If that is nothing, and pause() returns that this has been so for long, sleeps:
// sleep() returns false if it did not, because something can be moved already. A caller that holds a lock holds it at
// each call; clang does not see that these functions may require it.
template <class Move, class Pause, class Sleep>
void move_or_sleep(link::Waiter& waiter, Move move, Pause pause, Sleep sleep) ANELLO_UNCHECKED {
  if (move()) return waiter.moved();
  if (!pause()) return;
  waiter.forget();
  if (!sleep()) waiter.moved();
}

}  // namespace anello::group
