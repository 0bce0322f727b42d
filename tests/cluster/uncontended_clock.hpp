// A clock that stands still while processes wait for a core, so that a bound in its seconds can be demanded of a busy
// machine too. A thread sleeps, and starts and ends a process, in turn; only the time for which it asked to sleep, and
// the processor time of those processes, are counted. On an idle machine that is about 95 % of the time.
#pragma once
#include <atomic>
#include <thread>

namespace anello::cluster {

class UncontendedClock {
 public:
  UncontendedClock();
  ~UncontendedClock();
  UncontendedClock(const UncontendedClock&) = delete;
  UncontendedClock& operator=(const UncontendedClock&) = delete;

  double seconds() const { return seconds_; }  // since it was made

 private:
  void run();

  std::atomic<double> seconds_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace anello::cluster
