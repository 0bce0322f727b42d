// The library's threads block all signals, so that the program's handlers run on, and interrupt, its own threads only.
#pragma once
#include <signal.h>

#include <thread>
#include <utility>

namespace anello {

// While it lives, signals do not reach the calling thread, and threads that it starts inherit that.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// Throws std::system_error if no thread can be started; the caller's signals are then as before.
template <class Body>
std::thread quiet_thread(Body body) {
  const BlockedSignals blocked;
  return std::thread(std::move(body));
}

}  // namespace anello
