// Who of the neighbours on the control plane is still heard. Every rank sends a beat to each of them often enough, also
// while its program computes for minutes; who is not heard for as long as the limit is silent: its process is stopped
// or hangs in the kernel, or the network swallows what it says. Keepalive of TCP cannot tell: the kernel answers for a
// stopped process. Pure: no sockets, no clock (time is passed in); one thread.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace anello {

class HeartbeatMonitor {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point

  // 0: nobody is ever silent, but beats are sent.
  explicit HeartbeatMonitor(Time limit);

  void joined(int peer, Time now);
  void left(int peer);
  void heard(int peer, Time now);  // anything

  struct Due {
    bool beat = false;        // to all
    std::vector<int> silent;  // each is named once
  };
  Due tick(Time now);
  std::optional<Time> due() const;  // nothing while there are no peers

  Time limit() const { return limit_; }

 private:
  Time limit_, interval_;
  Time next_beat_{0};
  std::map<int, Time> last_heard_;
};

}  // namespace anello
