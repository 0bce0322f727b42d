#include "rendezvous/launch/base/poll_set.hpp"

#include <algorithm>

namespace anello::launch {

void PollSet::add(int fd, short events, std::function<void(short)> ready) {
  entries_.push_back({fd, events, 0});
  ready_.push_back(std::move(ready));
}

void PollSet::until(std::optional<TimePoint> limit) {
  if (limit && (!limit_ || *limit < *limit_)) limit_ = limit;
}

void PollSet::wait() {
  int timeout = -1;
  if (limit_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*limit_ - std::chrono::steady_clock::now());
    timeout = int(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 3600 * 1000));
  }
  if (poll(entries_.data(), entries_.size(), timeout) <= 0) return;
  for (std::size_t i = 0; i < entries_.size(); i++)
    if (entries_[i].revents) ready_[i](entries_[i].revents);
}

}  // namespace anello::launch
