// One round of poll(2): who waits for which descriptor, until when, and what is then to be called. Made anew for every
// round. A callback must not destroy what another one of the round stands for.
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
  // With no events asked for, only an error or the other end's closing is reported.
  void add(int fd, short events, std::function<void(short)> ready);
  void until(std::optional<TimePoint> limit);  // of all that are given the earliest counts
  void wait();                                 // without limit and descriptors: forever

 private:
  std::vector<pollfd> entries_;
  std::vector<std::function<void(short)>> ready_;
  std::optional<TimePoint> limit_;
};

}  // namespace anello::launch
