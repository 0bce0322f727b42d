// A clock that stands still while processes wait for a core, so that a limit measured by it also holds on a busy
// machine. A thread alternately sleeps, and starts and ends a process; only the requested sleeping time and the
// processor time of those processes are counted. On an idle machine the clock counts about 95 % of the time.
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
