// Lets a thread wait for its links: it spins, then yields, then sleeps in poll(). Every poll includes the bell, which
// other threads ring for an event: a verdict, a new link, a caller who wants the baton.
#pragma once
#include <poll.h>

#include <chrono>
#include <vector>

#include "ring/link/bell.hpp"
#include "ring/link/core.hpp"

namespace anello::link {

struct WaitPolicy {
  std::chrono::microseconds spin{0};
  int yields = 100;  // rounds that yield; YieldBudget may allow fewer
  std::chrono::milliseconds long_yield{1};

  // Spinning helps only if every rank of the host has its own core. If ranks share cores, the awaited rank needs this
  // core, so the thread yields at once. Another process may also want the core, so spinning ends after a few times the
  // cost of a sleep and a wake-up. This rule replaces a negative `spin_us` or `yields`.
  static WaitPolicy of(int spin_us, int yields, bool shares_cores);
};

class Waiter {
 public:
  // `core`: replaced in tests.
  Waiter(WaitPolicy policy, Bell& bell, Core core = {})
      : policy_(policy), bell_(bell), core_(core), budget_(policy.long_yield, core) {
    polled_.reserve(kUsuallyPolled);
  }

  void moved() {
    if (spins_ > 0 && !spun_) spin_record_.worth_it();
    if (yields_ > 0) budget_.found_after(last_yield_);
    begin_wait();
  }
  // Call after a round in which nothing moved. True if the caller should now call sleep() instead of trying again.
  bool pause();

  void forget() {
    polled_.clear();
    bells_.clear();
  }
  void want(int descriptor, short events) { polled_.push_back({descriptor, events, 0}); }
  void want(Bell& bell) { bells_.push_back(&bell); }
  // Blocks until a wanted descriptor is ready, or this waiter's bell or another wanted bell rings. False if `limit`
  // passes first. Clears the list of wanted descriptors and bells.
  bool sleep(std::chrono::milliseconds limit);

 private:
  static constexpr std::size_t kUsuallyPolled = 64;
  void begin_wait() {
    spins_ = yields_ = 0;
    spun_ = false;
  }
  bool spin_on();

  WaitPolicy policy_;
  Bell& bell_;
  Core core_;
  YieldBudget budget_;
  SpinRecord spin_record_;  // decides which waits spin if only short spins are left
  int spins_ = 0, yields_ = 0;
  bool spun_ = false;
  std::chrono::nanoseconds last_yield_{};  // of the current wait, if yields_ > 0
  bool core_is_wanted_ = false;            // the last wait that yielded has shown that another thread wants this core
  Core::Time began_;                       // when spinning began
  std::vector<pollfd> polled_;
  std::vector<Bell*> bells_;  // bells of other groups, on which this thread also waits
};

}  // namespace anello::link
