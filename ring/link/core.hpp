// How a waiting thread uses its core: how much time it may lose by yielding, and when it spins. Does not depend on
// links.
#pragma once
#include <algorithm>
#include <chrono>

namespace anello::link {

// The core on which the thread runs, and the clock. Tests replace both.
struct Core {
  using Time = std::chrono::steady_clock::time_point;
  Time (*now)() = std::chrono::steady_clock::now;
  void (*yield)() = give_up_core;

  static void give_up_core();  // sched_yield()
};

// Limits the time lost by yields. A yield lets another rank run. In a job with more ranks than cores, a yield returns
// after 3 to 30 us. But a thread that computes keeps the core for a whole time slice, 1 to 4 ms, and with many such
// threads a yield takes 20 to 40 ms. A message that arrives during such a yield is found late; a thread that sleeps
// would be woken for it far sooner. If no message has arrived when a long yield returns, nothing is lost: the awaited
// rank itself may have computed on this core.
//
// So time is lost only by long yields after which a message is found. It may be 0.5 % of all time, and 20 us more for
// each message that is found after a short yield. Without that yield, the thread would have slept, and been woken late:
// 8 ranks on 2 cores take 10 us for an operation in which each waits two or three times, and 70 us if they sleep. When
// the budget is used up, the thread sleeps instead. It is large enough for the long yields of a starting job.
class YieldBudget {
 public:
  explicit YieldBudget(std::chrono::milliseconds long_yield, Core core = {})
      : core_(core), long_yield_(long_yield), counted_(core.now()) {}

  bool allows_a_yield() { return left_.count() > 0 || refill(core_.now()); }
  // Yields, and returns how long the yield took.
  std::chrono::nanoseconds yield();
  bool is_long(std::chrono::nanoseconds yield) const { return yield > long_yield_; }
  // Call if the thread finds a message after it has yielded. `yield`: how long the last yield took.
  void found_after(std::chrono::nanoseconds yield);

 private:
  static constexpr std::chrono::milliseconds kBurst{50};
  static constexpr int kTimeOverCost = 200;
  static constexpr std::chrono::microseconds kSavedSleep{20};
  static constexpr std::chrono::microseconds kShortYield{100};  // only waiting ranks have run meanwhile

  bool refill(Core::Time now);

  Core core_;
  std::chrono::milliseconds long_yield_;
  std::chrono::nanoseconds left_ = kBurst;
  Core::Time counted_;  // the time for which left_ is valid
};

// Spinning is useless if the awaited rank itself waits for this core. After two useless spins in a row, the next wait
// does not spin; after the third, the next three waits do not spin; and so on up to 15 waits. Then one wait spins, to
// test whether spinning helps again. With two ranks on a core and 10 busy threads, an allreduce of 1 KiB takes 15 us
// with this rule, and 62 us if each wait spins.
class SpinRecord {
 public:
  // True if the wait that begins now should not spin. Each such answer uses up one of the waits to skip.
  bool skips() { return skips_ > 0 && skips_-- > 0; }
  void in_vain() {
    skips_ = next_skips_;
    next_skips_ = std::min(2 * next_skips_ + 1, kMaxSkips);
  }
  void worth_it() { next_skips_ = 0; }

 private:
  static constexpr int kMaxSkips = 15;

  int skips_ = 0, next_skips_ = 0;
};

}  // namespace anello::link
