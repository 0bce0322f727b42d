// The baton: the right to move a group's data, which one thread has at a time. A thread that waits for an operation
// acquires the baton if it is free, and moves the data itself. The group's background thread has it only while no
// caller wants it, and yields it to the first caller who does.
// The owner's mutex guards it and is locked when a function here is called, except where the function says otherwise.
// A baton that is free costs no other lock, no atomic write and no system call. Knows no operations.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "ring/link/bell.hpp"

namespace anello::group {

class Baton {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // `bell` wakes the thread that has the baton, if it sleeps.
  explicit Baton(link::Bell& bell) : bell_(bell) {}

  // For a caller. True: the caller has the baton and must release() it. False: `done` is true. Blocks while another
  // thread has the baton or the baton is closed, and makes the background thread yield meanwhile.
  bool acquire(Lock& lock, const std::atomic<bool>& done) {
    while (!done.load(std::memory_order_relaxed)) {
      if (!held_ && closed_ == 0) return held_ = true;
      wait(lock);
    }
    leave();
    return false;
  }

  // For the background thread: blocks until has_work() and no caller wants the baton. False: the baton is closed.
  template <class HasWork>
  bool acquire_in_background(Lock& lock, HasWork has_work) {
    while (closed_ == 0) {
      if (!held_ && wanted_ == 0 && has_work()) return held_ = true;
      work_.wait(lock);
    }
    return false;
  }

  // When the thread that has the baton must release it: once this is not 0. A caller keeps it until the baton is
  // closed; the background thread yields it to a caller too. Any thread, without the lock.
  const std::atomic<int>& closed() const { return closed_; }
  const std::atomic<int>& must_yield() const { return wanted_; }

  void release() {
    held_ = false;
    announce();
  }

  bool held() const { return held_; }

  // An operation is done: the threads that wait look again.
  void announce() {
    if (waiting_ > 0) changed_.notify_all();
  }

  // There is work, which the background thread may do if no caller does.
  void offer() {
    if (!held_) work_.notify_one();
  }

  // Blocks until `done`, `limit` at most, and does not acquire the baton. Returns `done`.
  bool wait_for(Lock& lock, std::chrono::milliseconds limit, const std::atomic<bool>& done);

  // No thread acquires it from now on, and the one that has it must release it.
  void close();
  // After close(): blocks until the baton is free.
  void wait_until_free(Lock& lock);
  // After close(), and after everything that acquire() and wait_for() wait for is done: blocks until they have
  // returned.
  void wait_until_unused(Lock& lock);

 private:
  void wait(Lock& lock);
  void leave() {
    if (closed_ != 0) changed_.notify_all();  // wait_until_unused() may wait for this
  }

  link::Bell& bell_;
  std::atomic<int> wanted_ = 0;             // callers that wait for the baton; never 0 again once it is closed
  std::atomic<int> closed_ = 0;             // 0 or 1
  std::condition_variable changed_, work_;  // for callers; for the background thread
  bool held_ = false;
  int waiting_ = 0;  // threads that wait for `changed_`
};

}  // namespace anello::group
