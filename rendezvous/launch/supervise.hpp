// What happens to the job when something happens: who is ended, when, how hard; what is said, and the exit code. A pure
// state machine: it is told events and the time, and answers with orders and sentences. Owned by the launcher's loop.
//
//   running --first failure--> searching, named (0.2 s) --> speaking (0.8 s, for the others' own errors) --> ending
//      \----signal, closed pipe, last rank ended------------------------------------------------------------->/
//   ending (TERM, grace) --> telling (1 s, the grace at most) --> killing (5 s) --> lost
// Named: the ranks tell each other of a failure that breaks connections, and know most. Of another one, such as the
// exit of a rank that has left the world in good order, the launcher tells them. Telling: a world that is stuck in a
// collective does not end when it is asked to; a call that fails with the reason is its last chance.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/job.hpp"
#include "rendezvous/launch/messages.hpp"

namespace anello::launch {

using Clock = std::chrono::steady_clock;

// Higher is likelier to have come first, among ends (as waitpid has them) found at about the same time.
int likely_cause(int status);
inline constexpr int kSurelyCause = 2;

class Supervisor {
 public:
  struct Actions {
    std::function<void(const Order&)> order;
    // Ends the ranks' world with a reason that blames a rank or -1. False: there is no world.
    std::function<bool(int culprit, const std::string& reason)> abort;
    std::function<void(const std::string&)> say;
  };
  Supervisor(const Job& job, std::string host, Actions hands);

  void heard(const Report& report, Clock::time_point now);
  void signalled(int signal, Clock::time_point now);  // one that ends
  void reader_gone(Clock::time_point now);            // whoever read our output is not there any more
  void output_failed(const std::string& why, Clock::time_point now);
  void keeper_gone();

  void tick(Clock::time_point now);
  std::optional<Clock::time_point> next_tick() const { return deadline_; }

  bool over() const { return phase_ == Phase::over; }
  bool keeper_was_killed() const { return keeper_was_killed_; }  // what was below it may still be there
  bool gave_up() const { return gave_up_; }                      // on what survives SIGKILL
  int exit_code() const { return exit_code_; }

 private:
  enum class Phase { running, searching, named, speaking, ending, telling, killing, over };
  void enter(Phase phase, Clock::time_point deadline);
  void end(int signal, const std::string& why, Clock::time_point now);
  bool abort(int culprit, const std::string& why);
  void kill(Clock::time_point now);
  void started(int rank);
  void not_started(int rank, int error, Clock::time_point now);
  void exited(const Report& report, Clock::time_point now);
  void name_cause();
  std::string ranks_left() const;

  const Job& job_;
  std::string host_;
  Actions hands_;
  std::vector<bool> alive_;
  int alive_count_ = 0, ended_count_ = 0;
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_;
  std::optional<Report> cause_;  // the failure that ends the job, as far as is known
  std::string why_;              // it ends, for the ranks
  Clock::time_point failed_at_{}, signalled_at_{};
  int exit_code_ = 0;
  bool keeper_was_killed_ = false, gave_up_ = false, told_ = false;
};

}  // namespace anello::launch
