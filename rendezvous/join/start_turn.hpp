// Makes threads of one process start worlds of the same job one after another. If two threads started at once, the
// other ranks could not see to which of the two starts a rank belongs. Any thread.
#pragma once
#include <chrono>
#include <string>

namespace anello::rendezvous {

class StartTurn {
 public:
  // Blocks until no other thread of this process has the turn for this job. Throws Error{timed_out} at the deadline,
  // and the errors of Interruption::check().
  StartTurn(std::string job, std::chrono::steady_clock::time_point deadline);
  ~StartTurn();
  StartTurn(const StartTurn&) = delete;
  StartTurn& operator=(const StartTurn&) = delete;

 private:
  const std::string job_;
};

}  // namespace anello::rendezvous
