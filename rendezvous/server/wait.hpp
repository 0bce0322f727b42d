// The wait of a start for its next step: when it began, and when it must end. Pure.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>

namespace anello::rendezvous {

class Wait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void begin(Time now) { since_ = now; }
  void clear() { end_.reset(); }
  void end_at(Time end) { end_ = end; }
  void limit(Time end) { end_ = end_ ? std::min(*end_, end) : end; }  // the wait ends no later than `end`
  std::optional<Time> end() const { return end_; }
  std::chrono::milliseconds duration() const {  // call only if there is an end
    return std::chrono::duration_cast<std::chrono::milliseconds>(*end_ - since_);
  }

 private:
  Time since_{};
  std::optional<Time> end_;
};

}  // namespace anello::rendezvous
