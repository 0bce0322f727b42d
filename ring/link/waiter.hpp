// How a thread waits for its links: spins, then yields, then sleeps in poll(). Whoever else has news for it (an abort,
// a new link) rings the Bell, which is in every poll.
#pragma once
#include <poll.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace anello {

// An eventfd. ring() from any thread; the rest by the waiting thread.
class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() noexcept;
  void hush() noexcept;  // forget earlier rings
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct WaitPolicy {
  std::chrono::microseconds spin{0};
  int yields = 100;  // empty rounds

  // Where every rank of the host has a core of its own, what it waits for comes soon and from elsewhere; otherwise the
  // core is needed by the rank that is waited for, so it is given up at once. Spinning ends after a few times what a
  // sleep and a wake-up cost, since others may want the core. Negative settings mean by this rule.
  static WaitPolicy of(int spin_us, int yields, bool shares_cores);
};

class Waiter {
 public:
  Waiter(WaitPolicy patience, Bell& bell) : patience_(patience), bell_(bell) { polled_.reserve(kUsuallyPolled); }

  void moved() {
    spins_ = yields_ = 0;
    spun_ = false;
  }
  // One empty round. True if the caller should sleep() next instead of trying again.
  bool pause();

  void forget() { polled_.clear(); }
  void want(int descriptor, short events) { polled_.push_back({descriptor, events, 0}); }
  // Until something wanted is ready, the bell rings or `limit` has passed.
  void sleep(std::chrono::milliseconds limit);

 private:
  static constexpr std::size_t kUsuallyPolled = 64;
  bool spin_on();

  WaitPolicy patience_;
  Bell& bell_;
  int spins_ = 0, yields_ = 0;
  bool spun_ = false;
  bool core_is_wanted_ = false;                  // by somebody else, in the last wait that yielded
  std::chrono::steady_clock::time_point began_;  // spinning
  std::vector<pollfd> polled_;
};

}  // namespace anello
