// How a thread waits for its links: it spins, then yields, then sleeps in poll(). Every poll includes the bell, which
// other threads ring when there is something to see: a verdict, a new link, a caller who wants the baton.
#pragma once
#include <poll.h>

#include <chrono>
#include <vector>

#include "ring/link/bell.hpp"
#include "ring/link/core.hpp"

namespace anello::link {

struct WaitPolicy {
  std::chrono::microseconds spin{0};
  int yields = 100;  // empty rounds, fewer while yields take long: see YieldBudget
  std::chrono::milliseconds long_yield{1};

  // Spinning pays only if every rank of the host has a core of its own. Otherwise the rank that is waited for needs
  // this core, so it is given up at once. Spinning ends after a few times the cost of a sleep and a wake-up, since
  // another process may want the core. A negative setting leaves the choice to this rule.
  static WaitPolicy of(int spin_us, int yields, bool shares_cores);
};

class Waiter {
 public:
  // Tests have a core of their own.
  Waiter(WaitPolicy policy, Bell& bell, Core core = {})
      : policy_(policy), bell_(bell), core_(core), budget_(policy.long_yield, core) {
    polled_.reserve(kUsuallyPolled);
  }

  void moved() {
    if (spins_ > 0 && !spun_) spin_record_.worth_it();
    spins_ = yields_ = 0;
    spun_ = false;
  }
  // One empty round. True if the caller should sleep() next instead of trying again.
  bool pause();

  void forget() {
    polled_.clear();
    bells_.clear();
  }
  void want(int descriptor, short events) { polled_.push_back({descriptor, events, 0}); }
  void want(Bell& bell) { bells_.push_back(&bell); }
  // Blocks until a wanted descriptor is ready, this waiter's bell or a wanted one rings, or `limit` has passed: then
  // false. Forgets what was wanted.
  bool sleep(std::chrono::milliseconds limit);

 private:
  static constexpr std::size_t kUsuallyPolled = 64;
  bool spin_on();

  WaitPolicy policy_;
  Bell& bell_;
  Core core_;
  YieldBudget budget_;
  SpinRecord spin_record_;  // of short ones
  int spins_ = 0, yields_ = 0;
  bool spun_ = false;
  bool core_is_wanted_ = false;  // by another thread, as the last wait that yielded found
  Core::Time began_;             // spinning
  std::vector<pollfd> polled_;
  std::vector<Bell*> bells_;  // of others
};

}  // namespace anello::link
