// The baton is the right to move a group's data. One thread has it at a time. A thread that waits for an operation
// acquires the baton if it is free, and moves the data itself. The progress thread may have the baton only while no
// caller wants it, and yields it to the first caller that does. The owner's mutex guards the baton; lock it before you
// call a function here, unless the function's comment says otherwise. Acquiring a free baton needs no other lock, no
// atomic write and no system call. This class does not depend on operations.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <optional>

#include "ring/base/mutex.hpp"
#include "ring/link/bell.hpp"

namespace anello::group {

using Until = std::optional<std::chrono::steady_clock::time_point>;  // empty: without limit
inline bool has_passed(const Until& until) {
  return until && std::chrono::steady_clock::now() >= *until;
}

class Baton {
 public:
  using Lock = MutexLock;

  // `bell` wakes the thread that has the baton, if it sleeps.
  explicit Baton(link::Bell& bell) : bell_(bell) {}

  // For a caller. Returns true if the caller has got the baton, which it must release(). Returns false if `done` is
  // true, or if the time `until` has come. Blocks while another thread has the baton. After close(), blocks until
  // `done` is true or `until` has come. While a caller blocks here, the progress thread yields the baton.
  bool acquire(Lock& lock, const std::atomic<bool>& done, const Until& until = {}) {
    while (!done.load(std::memory_order_relaxed)) {
      if (!held_ && closed_ == 0) return held_ = true;
      if (!wait(lock, until)) break;
    }
    leave();
    return false;
  }

  // For the progress thread. Returns false if another thread has the baton, if a caller wants it, or after close().
  bool try_acquire() {
    if (held_ || wanted_ > 0) return false;
    return held_ = true;
  }

  // Not 0 after close(): a caller that has the baton must then release it. Any thread, without the lock.
  const std::atomic<int>& closed() const { return closed_; }

  void release() {
    held_ = false;
    if (wanted_ > 0) changed_.notify_all();
  }

  // Marks that a thread uses the owner without having the baton, so that wait_until_unused() waits for it. Construct
  // and destroy it with the lock held.
  class Use {
   public:
    explicit Use(Baton& baton) : baton_(baton) { baton_.waiting_++; }
    ~Use() {
      baton_.waiting_--;
      baton_.leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Baton& baton_;
  };

  bool held() const { return held_; }
  bool wanted() const { return wanted_ > 0; }  // true if a caller waits for the baton

  // Call when an operation is done, so that the waiting threads check their condition again.
  void announce() {
    if (wanted_ > 0) changed_.notify_all();
    if (watching_ > 0) completed_.notify_all();
  }

  // Blocks until `done`, for at most `limit`, without acquiring the baton. Returns `done`.
  bool wait_for(Lock& lock, std::chrono::milliseconds limit, const std::atomic<bool>& done);

  // From now on no thread can acquire the baton, and the thread that has it must release it.
  void close();
  // After close(): blocks until the baton is free.
  void wait_until_free(Lock& lock);
  // Call after close(), when every operation for which acquire() or wait_for() waits is done. Blocks until these calls
  // have returned and no Use is left.
  void wait_until_unused(Lock& lock);

 private:
  bool wait(Lock& lock, const Until& until);
  void leave() {
    if (closed_ != 0) changed_.notify_all();  // wakes wait_until_unused()
  }

  link::Bell& bell_;
  int wanted_ = 0;               // number of callers that wait for the baton; close() adds one permanently
  std::atomic<int> closed_ = 0;  // 0 or 1
  bool held_ = false;
  std::condition_variable changed_;    // for callers that want the baton, and for the two waits after close()
  std::condition_variable completed_;  // for wait_for(), which each round of the progress thread must not wake
  int watching_ = 0;                   // threads in wait_for()
  int waiting_ = 0;                    // threads in any wait but wait_until_unused(), and instances of Use
};

}  // namespace anello::group
