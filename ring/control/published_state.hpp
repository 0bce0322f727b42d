// State that the control plane's background thread publishes and other threads wait for: the progress of the start, the
// verdict, and the progress of this rank's leaving. Any thread.
#pragma once
#include <anello/error.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/failure/agreement.hpp"

namespace anello::control {

class PublishedState {
 public:
  using Clock = std::chrono::steady_clock;

  // Functions for the start. wait_for_start() returns true when `count` neighbours are connected, or when the start or
  // the world has failed.
  void connected(int peer);
  void start_failed(Error error);
  bool wait_for_start(std::size_t count, std::chrono::milliseconds limit) const;
  bool may_have_deeper_cause() const;  // true if a connection ended, perhaps because another rank died
  void throw_if_failed() const;        // throws the error of the start, or the verdict
  std::vector<int> connected() const;

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void set_failed() { failed_.store(true, std::memory_order_release); }
  // Returns the verdict. Waits for at most 3 s for the verdict, and then for at most 1 s until handled() has been
  // called.
  Error error() const;
  // Publishes the verdict of all ranks, if there is one, and the two conditions for leaving. `read`: the neighbours
  // have read the goodbye. `closed`: all connections are closed. Returns true the first time that there is a verdict;
  // then call handled() when all other parts of this rank have been informed.
  bool publish(const std::optional<failure::Verdict>& verdict, bool read, bool closed);
  void handled();

  // Leaving has three stages: the neighbours have read the goodbye; everything has been sent; all connections are
  // closed.
  bool sent() const;
  void set_sent();
  void wait_until_read(Clock::time_point end) const;  // also returns if the world has failed
  // In a world that has not failed, waits until all connections are closed.
  void wait_until_sent(Clock::time_point end) const;
  void wait_until_closed(Clock::time_point end) const;

 private:
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<failure::Verdict> verdict_ ANELLO_GUARDED_BY(mutex_);
  std::optional<Error> start_error_ ANELLO_GUARDED_BY(mutex_);
  std::vector<int> connected_ ANELLO_GUARDED_BY(mutex_);
  bool read_ ANELLO_GUARDED_BY(mutex_) = false, sent_ ANELLO_GUARDED_BY(mutex_) = false;
  bool closed_ ANELLO_GUARDED_BY(mutex_) = false, handled_ ANELLO_GUARDED_BY(mutex_) = false;
};

}  // namespace anello::control
