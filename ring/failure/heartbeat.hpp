// Detects which neighbours on the control plane are silent. Every rank sends heartbeats to its neighbours, even while
// its program computes for minutes. A neighbour is silent if nothing arrives from it within the limit: its process is
// stopped or hangs in the kernel, or the network drops its messages. TCP's keepalive cannot show this, because the
// kernel answers for a stopped process. Pure: no sockets, no clock (time is passed in); one thread.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace anello::failure {

class HeartbeatMonitor {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point

  // `limit` 0: no peer is ever silent, but heartbeats are still sent.
  explicit HeartbeatMonitor(Time limit);

  void add(int peer, Time now);
  void remove(int peer);
  void received(int peer, Time now);  // any message, not only a heartbeat

  struct Due {
    bool heartbeat = false;   // true: send a heartbeat to every peer
    std::vector<int> silent;  // peers that became silent; each appears once, and is then removed
  };
  Due tick(Time now);               // call when due() has come
  std::optional<Time> due() const;  // empty: there are no peers

  Time limit() const { return limit_; }

 private:
  Time limit_, interval_;
  Time next_heartbeat_{0};
  std::map<int, Time> last_received_;
};

}  // namespace anello::failure
