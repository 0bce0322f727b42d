// Decides what happens to the job after each event: which ranks are ended, when, and with which signal; what is
// printed; and the exit code. A pure state machine: events and the time in, orders and sentences out. Owned by the
// launcher's loop.
//
//   running --first failure--> searching, named (0.2 s) --> reporting (0.8 s: errors of other ranks) --> ending
//      \----signal, closed pipe, last rank ended---------------------------------------------------------->/
//   ending (TERM, grace) --> aborting (1 s, at most the grace) --> killing (5 s) --> over
// Named: if the failure breaks connections, the ranks themselves agree on its cause, because they have more information
// than the launcher. If the failure breaks no connection (a rank that has left the world exits with an error), the
// launcher aborts the world after the 0.2 s. The cause is the exit of the rank that the ranks themselves blame
// (LastWord). If they blame none, it is the most likely of the exits that come while the launcher searches. Aborting:
// ranks that wait in a collective may not react to the signal. Their collective then fails with the reason, and this
// gives the program a last chance to end by itself.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/job/job.hpp"
#include "rendezvous/launch/processes/blame.hpp"
#include "rendezvous/launch/processes/rank_processes.hpp"
#include "rendezvous/launch/processes/rank_table.hpp"

namespace anello::launch {

// Returns how likely it is that a rank with this status of waitpid() failed first, among ranks that ended at about the
// same time. A higher number is more likely.
int likely_cause(int status);
inline constexpr int kSurelyCause = 2;

class Supervisor {
 public:
  struct Actions {
    std::function<void(const Order&)> order;
    // Aborts the ranks' world; `culprit` is a rank or -1. Returns false if there is no world.
    std::function<bool(int culprit, const std::string& reason)> abort;
    std::function<void(const std::string&)> print;
    // Returns the generation of the newest world that all its ranks have joined; 0: there is none.
    std::function<std::uint32_t()> newest_world = [] { return std::uint32_t(0); };
    // Returns how often the kernel has killed a process on this host for lack of memory; nothing if the kernel does not
    // show it.
    std::function<std::optional<std::uint64_t>()> out_of_memory_kills = [] { return std::nullopt; };
  };
  Supervisor(const Job& job, Actions actions);

  void reported(const Report& report, Clock::time_point now);
  // Call this before the later exits are reported.
  void received(const world::LastWord& word) { blame_.received(word); }
  void host_lost(const HostLoss& loss, Clock::time_point now);
  void signalled(int signal, Clock::time_point now);  // a signal to end the job
  void reader_gone(Clock::time_point now);            // the reader of the output has gone
  void output_failed(const std::string& why, Clock::time_point now);
  void keeper_gone(const std::string& how);  // `how` empty: the keeper ended by itself, after all processes

  void end_at(Clock::time_point limit) { job_limit_ = limit; }  // --timeout
  void tick(Clock::time_point now);
  std::optional<Clock::time_point> next_tick() const;

  bool over() const { return phase_ == Phase::over; }
  bool keeper_was_killed() const { return keeper_was_killed_; }  // processes below it may have survived
  bool gave_up() const { return gave_up_; }                      // processes have survived SIGKILL
  bool asked_to_end() const { return asked_to_end_; }            // by a signal or --timeout
  int exit_code() const { return exit_code_; }
  // True if the job may succeed when it is started again: a rank has failed (but not with a status that means wrong
  // usage), or a host was lost, and the user has not ended the job. A host that could not even be used at the first
  // start is a mistake of the user.
  bool may_pass() const;
  int culprit() const { return culprit_; }           // the rank that failed first, or -1
  bool failed() const { return !failure_.empty(); }  // false if the user ended the job
  // Returns the text to append to "the job failed": the reason, or only the rank that failed first; then the ranks that
  // failed because of it, and the ranks that the launcher ended.
  std::string summary(bool with_reason) const;

 private:
  enum class Phase { running, searching, named, reporting, ending, aborting, killing, over };
  void enter(Phase phase, Clock::time_point deadline);
  void end(int signal, const std::string& why, Clock::time_point now);
  bool abort(int culprit, const std::string& why);
  void kill(Clock::time_point now);
  void timed_out(Clock::time_point now);
  void not_started(int rank, int problem, Clock::time_point now);
  void exited(const Report& report, Clock::time_point now);
  int likelihood(const Report& end) const;
  bool may_be_a_lost_host(const Report& end) const;
  void name_cause();
  void end_if_all_ended(Clock::time_point now);
  std::optional<Clock::time_point> leftovers_due() const;
  void name_leftovers(Clock::time_point now);
  std::string lack_of_memory() const;

  const Job& job_;
  Actions actions_;
  const std::optional<std::uint64_t> kills_before_;  // for lack of memory
  RankTable ranks_;
  Clock::time_point last_end_{};    // when the last rank ended
  Clock::duration silence_told_{};  // for this time after last_end_, no message about ranks that still run
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_, job_limit_;
  std::optional<Report> cause_;  // the failure that ends the job; may be corrected during the search
  int culprit_ = -1;             // the rank of that failure, or the rank that caused it
  Blame blame_;
  std::string why_;          // why the job ends; the ranks receive it
  std::string failure_;      // for the summary; empty: none
  std::vector<int> failed_;  // in the order of their exits
  std::vector<int> ended_;   // ranks that the launcher ended, ascending
  Clock::time_point failed_at_{}, signalled_at_{};
  int exit_code_ = 0;
  bool keeper_was_killed_ = false, gave_up_ = false, abort_sent_ = false, interrupted_ = false, asked_to_end_ = false;
  bool lost_host_ = false, left_stopped_ = false;
};

}  // namespace anello::launch
