// Notices when this process was stopped. Meanwhile the other processes may have gone on with the training and then
// ended. So their end does not prove that this process still has the newest state. Pure: the caller passes the time.
#pragma once
#include <chrono>

namespace anello::rendezvous {

class Stops {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kInterval{500};  // call look() at this interval

  // Only stops that are longer than `limit` are noticed.
  Stops(std::chrono::milliseconds limit, Time now) : limit_(limit), last_look_(now) {}

  void look(Time now) {
    if (now - last_look_ > limit_ + kInterval) end_of_newest_ = now;
    last_look_ = now;
  }
  bool noticed_since(Time when) const { return end_of_newest_ > when; }

 private:
  std::chrono::milliseconds limit_;
  Time last_look_;
  Time end_of_newest_ = Time::min();
};

}  // namespace anello::rendezvous
