#include "ring/failure/heartbeat.hpp"

#include <algorithm>

namespace anello {
namespace {

// A beat may be lost in none of TCP's ways, but it may be late: by a busy core, or by one segment sent again.
constexpr int kBeatsInLimit = 8;
constexpr HeartbeatMonitor::Time kLongest{1000}, kShortest{10};

}  // namespace

HeartbeatMonitor::HeartbeatMonitor(Time limit)
    : limit_(limit),
      interval_(limit.count() == 0 ? kLongest : std::clamp(limit / kBeatsInLimit, kShortest, kLongest)) {}

void HeartbeatMonitor::joined(int peer, Time now) {
  if (last_heard_.empty()) next_beat_ = now;
  last_heard_[peer] = now;
}

void HeartbeatMonitor::left(int peer) {
  last_heard_.erase(peer);
}

void HeartbeatMonitor::heard(int peer, Time now) {
  if (const auto found = last_heard_.find(peer); found != last_heard_.end()) found->second = now;
}

HeartbeatMonitor::Due HeartbeatMonitor::tick(Time now) {
  Due due;
  if (last_heard_.empty()) return due;
  // Who comes so late was stopped, and what the others said meanwhile has not been read yet.
  if (now >= next_beat_ + 2 * interval_)
    for (auto& [peer, last] : last_heard_) last = now;
  if (now >= next_beat_) {
    due.beat = true;
    next_beat_ = now + interval_;
  }
  if (limit_.count() > 0)
    std::erase_if(last_heard_, [&](const auto& each) {
      if (now < each.second + limit_) return false;
      due.silent.push_back(each.first);
      return true;
    });
  return due;
}

std::optional<HeartbeatMonitor::Time> HeartbeatMonitor::due() const {
  if (last_heard_.empty()) return std::nullopt;
  Time first = next_beat_;
  if (limit_.count() > 0)
    for (const auto& [peer, last] : last_heard_) first = std::min(first, last + limit_);
  return first;
}

}  // namespace anello
