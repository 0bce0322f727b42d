// Threads of one process that start worlds of the same job do so one after another: the other ranks could not see to
// which of the starts a rank belongs. Any thread.
#pragma once
#include <chrono>
#include <string>

namespace anello::rendezvous {

class StartTurn {
 public:
  // Blocks until no other thread of this process has the turn for this job. Throws Error{timed_out} at the deadline,
  // and what Interruption::check() throws.
  StartTurn(std::string job, std::chrono::steady_clock::time_point deadline);
  ~StartTurn();
  StartTurn(const StartTurn&) = delete;
  StartTurn& operator=(const StartTurn&) = delete;

 private:
  const std::string job_;
};

}  // namespace anello::rendezvous
