#include "ring/failure/heartbeat.hpp"

#include <algorithm>

namespace anello::failure {
namespace {

// TCP does not lose a heartbeat, but it may arrive late, because a core was busy or a segment was retransmitted.
constexpr int kHeartbeatsInLimit = 8;
constexpr HeartbeatMonitor::Time kMaxInterval{1000}, kMinInterval{10};

}  // namespace

HeartbeatMonitor::HeartbeatMonitor(Time limit)
    : limit_(limit),
      interval_(limit.count() == 0 ? kMaxInterval
                                   : std::clamp(limit / kHeartbeatsInLimit, kMinInterval, kMaxInterval)) {}

void HeartbeatMonitor::add(int peer, Time now) {
  if (last_received_.empty()) next_heartbeat_ = now;
  last_received_[peer] = now;
}

void HeartbeatMonitor::remove(int peer) {
  last_received_.erase(peer);
}

void HeartbeatMonitor::received(int peer, Time now) {
  if (const auto found = last_received_.find(peer); found != last_received_.end()) found->second = now;
}

HeartbeatMonitor::Due HeartbeatMonitor::tick(Time now) {
  Due due;
  if (last_received_.empty()) return due;
  // A tick that is this late shows that this process was stopped, and has not read what its peers sent in that time.
  if (now >= next_heartbeat_ + 2 * interval_)
    for (auto& [peer, last] : last_received_) last = now;
  if (now >= next_heartbeat_) {
    due.heartbeat = true;
    next_heartbeat_ = now + interval_;
  }
  if (limit_.count() > 0)
    std::erase_if(last_received_, [&](const auto& each) {
      if (now < each.second + limit_) return false;
      due.silent.push_back(each.first);
      return true;
    });
  return due;
}

std::optional<HeartbeatMonitor::Time> HeartbeatMonitor::due() const {
  if (last_received_.empty()) return std::nullopt;
  Time first = next_heartbeat_;
  if (limit_.count() > 0)
    for (const auto& [peer, last] : last_received_) first = std::min(first, last + limit_);
  return first;
}

}  // namespace anello::failure
