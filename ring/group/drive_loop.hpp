// The loop of a thread that waits for an operation: takes the baton, moves data as long as possible, then spins, yields
// and finally sleeps.
#pragma once
#include <algorithm>
#include <chrono>

#include "ring/group/baton.hpp"
#include "ring/link/waiter.hpp"

namespace anello::group {

// Returns `sleep`, or the time left until `until` if that is shorter.
inline std::chrono::milliseconds no_longer_than(const Until& until, std::chrono::milliseconds sleep) {
  using std::chrono::milliseconds;
  if (!until) return sleep;
  const auto left = std::chrono::ceil<milliseconds>(*until - std::chrono::steady_clock::now());
  return std::clamp(left, milliseconds(0), sleep);
}

// Moves data until `done`, or until the time `until`. When the baton is free, takes it and repeats move() until move()
// returns false or the baton is closed. Then calls release(), which must release the baton. The lock is held at each
// call. Clang cannot see that this lock belongs to the mutex that move() and release() require.
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

// Calls move(). If nothing moved, calls pause(), which returns true if nothing has moved for a while; then calls
// sleep(). sleep() returns false if it did not sleep because something can move already. If the caller holds a lock, it
// is also held at each of these calls; clang cannot see that they may require the lock.
template <class Move, class Pause, class Sleep>
void move_or_sleep(link::Waiter& waiter, Move move, Pause pause, Sleep sleep) ANELLO_UNCHECKED {
  if (move()) return waiter.moved();
  if (!pause()) return;
  waiter.forget();
  if (!sleep()) waiter.moved();
}

}  // namespace anello::group
