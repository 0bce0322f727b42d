// Decides when the launcher asks an agent whether it still answers, and when an agent counts as silent: it is stopped,
// hangs, or gets no core. The connection does not show this, because the kernel answers for the process. Silence is
// measured in rounds of the launcher's loop and not in time, so that a launcher that was stopped does not blame its
// agents. Pure. Owned by the launcher's loop.
#pragma once
#include <chrono>

namespace anello::launch {

class Heartbeat {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `limit`: the limit of the Lifeline. The heartbeat notices silence a little later than the Lifeline does, because
  // the Lifeline's error names the cause, and so must come first.
  explicit Heartbeat(std::chrono::milliseconds limit);

  // Call after each round of the loop. Returns true if a question must be sent now.
  bool asks(Time now);
  void answered();
  bool late() const { return unanswered_ > max_unanswered_ / 2; }  // the agent has been silent for half of the limit
  bool silent() const { return max_unanswered_ > 0 && unanswered_ > max_unanswered_; }
  Time next() const { return next_; }  // when to call asks()

 private:
  const long max_unanswered_;  // the maximum number of beats without an answer; 0: there is no limit
  long unanswered_ = 0;        // the number of beats since the question that has no answer yet
  bool waits_ = false;
  Time next_{};
};

}  // namespace anello::launch
