// Decides when the launcher asks an agent whether it still answers, and when an agent counts as silent: it is stopped,
// hangs, or gets no core. The connection does not show that, because the kernel answers for the process. Questions are
// counted and not time, so that agents are not blamed for a launcher that was stopped. Pure. Owned by the launcher's
// loop.
#pragma once
#include <chrono>

namespace anello::launch {

class Heartbeat {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `limit`: how long an agent may be silent, as the Lifeline takes it, whose answer names the cause and so comes
  // first.
  explicit Heartbeat(std::chrono::milliseconds limit);

  // Call it after each round of the loop. True: send a question now.
  bool asks(Time now);
  void answered();
  bool late() const { return unanswered_ > max_unanswered_ / 2; }  // it was silent for half of the limit
  bool silent() const { return max_unanswered_ > 0 && unanswered_ > max_unanswered_; }
  Time next() const { return next_; }  // when asks() is to be called

 private:
  const long max_unanswered_;  // beats; 0: without a limit
  long unanswered_ = 0;        // beats since the question that waits for its answer
  bool waits_ = false;
  Time next_{};
};

}  // namespace anello::launch
