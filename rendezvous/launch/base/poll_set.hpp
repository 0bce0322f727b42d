// One round of poll(2): the descriptors to wait for, the time limit, and the functions to call when a descriptor is
// ready. The caller makes a new object for each round. A callback must not destroy an object that another callback of
// the same round uses.
#pragma once
#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace anello::launch {

class PollSet {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // With `events` 0, `ready` is called only if there is an error or the other end is closed.
  void add(int fd, short events, std::function<void(short)> ready);
  // wait() returns at the earliest of the limits that were given to until(), unless a descriptor is ready before.
  void until(std::optional<TimePoint> limit);
  void wait();  // blocks until a descriptor is ready, or until the limit if there is one

 private:
  std::vector<pollfd> entries_;
  std::vector<std::function<void(short)>> ready_;
  std::optional<TimePoint> limit_;
};

}  // namespace anello::launch
