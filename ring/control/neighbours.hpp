// The ranks to which this rank is connected on the control plane: their connections, which of them are silent, and
// which of them delay other ranks. Used on the background thread.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ring/failure/heartbeat.hpp"
#include "ring/failure/stragglers.hpp"
#include "ring/net/message_channel.hpp"

namespace anello::control {

class Neighbours {
 public:
  using Channel = std::shared_ptr<net::MessageChannel>;
  using Time = failure::HeartbeatMonitor::Time;

  // A neighbour that sends nothing for `silence_limit` is silent; 0: never.
  explicit Neighbours(std::chrono::milliseconds silence_limit);

  bool has(int peer) const { return channels_.contains(peer); }
  bool empty() const { return channels_.empty(); }
  // `proven`: the neighbour has been connected since the start. A neighbour that connected later may leave before it
  // has sent anything, so the end of its connection does not prove that it died.
  void add(int peer, Channel channel, bool proven, Time now);
  // Closes the connection. Returns true if nothing was ever received from this neighbour.
  bool remove(int peer);
  void close(int peer);               // does nothing if the peer is not a neighbour
  void received(int peer, Time now);  // call for any message
  bool is_unproven(int peer) const { return unproven_.contains(peer); }

  void send(int peer, std::string_view frame);  // `frame`: the body of a message
  void send_to_all(std::string_view frame);
  void finish_all(std::chrono::milliseconds limit);

  // Call when this neighbour has echoed this rank's goodbye, which shows that it has read the goodbye.
  void read_goodbye(int peer) { read_goodbye_.insert(peer); }
  // True if each neighbour has read this rank's goodbye or has left. `has_left(peer)`: true if the peer has said
  // goodbye.
  template <class HasLeft>
  bool all_read_goodbye(HasLeft has_left) const {
    for (const auto& [peer, channel] : channels_)
      if (!read_goodbye_.contains(peer) && !has_left(peer)) return false;
    return true;
  }

  // `slept`: the total time that this rank has slept in operations. A neighbour whose queue still has unread messages
  // gets no heartbeat.
  void send_heartbeats(std::chrono::milliseconds slept);
  void send_heartbeat(int peer, std::chrono::milliseconds slept);

  failure::HeartbeatMonitor& heartbeats() { return heartbeats_; }
  failure::StragglerDetector& stragglers() { return stragglers_; }

 private:
  std::map<int, Channel> channels_;
  std::set<int> unproven_;
  std::set<int> read_goodbye_;
  failure::HeartbeatMonitor heartbeats_;
  failure::StragglerDetector stragglers_;
};

}  // namespace anello::control
