// The part of a supervisor that all kinds of jobs share: how a job is ended, and its exit code. A supervisor decides
// after each event which ranks are ended, when, and with which signal, and what is printed. A pure state machine:
// events and the time in, orders and sentences out. Owned by the launcher's loop.
//
//   running --> ending (the signal, grace) --> aborting (3 s, at most the grace) --> killing (5 s) --> over
//
// Aborting: ranks that wait in a collective may not react to the signal. Their collective then fails with the reason,
// and this gives the program a last chance to end by itself.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/job/job.hpp"
#include "rendezvous/launch/processes/rank_processes.hpp"
#include "rendezvous/launch/processes/rank_table.hpp"

namespace anello::launch {

// Compares ranks that ended at about the same time. Returns a number for this status of waitpid(): the higher it is,
// the more likely the rank failed first.
int likely_cause(int status);
inline constexpr int kSurelyCause = 2;

class Supervisor {
 public:
  struct Actions {
    std::function<void(const Order&)> order;
    // Aborts the ranks' world; `culprit` is a rank or -1. Returns false if there is no world.
    std::function<bool(int culprit, const std::string& reason)> abort;
    std::function<void(const std::string&)> print;
    // Asks the process at this place of an elastic job to leave it in good order.
    std::function<void(int place)> retire = [](int) {};
    // Reports how many processes are on their way into the elastic job.
    std::function<void(int newcomers)> expect = [](int) {};
    // Returns the generation of the newest world that all its ranks have joined; 0: there is none.
    std::function<std::uint32_t()> newest_world = [] { return std::uint32_t(0); };
    // Returns how often the kernel has killed a process on this host for lack of memory; nothing if the kernel does not
    // show it.
    std::function<std::optional<std::uint64_t>()> out_of_memory_kills = [] { return std::nullopt; };
  };
  Supervisor(const Job& job, Actions actions);
  virtual ~Supervisor() = default;
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  void reported(const Report& report, Clock::time_point now);
  // Call this before the later exits are reported.
  virtual void received(const world::LastWord&, Clock::time_point /*now*/) {}
  virtual void host_lost(const HostLoss& loss, Clock::time_point now) = 0;
  void signalled(int signal, Clock::time_point now);  // call this if a signal asks the launcher to end the job
  void reader_gone(Clock::time_point now);            // call this if the reader of the output has gone
  void output_failed(const std::string& why, Clock::time_point now);
  // Call this if the keeper has ended. `how` describes this; it is empty if the keeper ended by itself, after all
  // processes.
  void keeper_gone(const std::string& how);

  void end_at(Clock::time_point limit) { job_limit_ = limit; }  // for --timeout
  void tick(Clock::time_point now);
  std::optional<Clock::time_point> next_tick() const;

  bool ending() const { return phase_ >= Phase::ending; }
  bool over() const { return phase_ == Phase::over; }
  // If true, processes that the keeper started may have survived.
  bool keeper_was_killed() const { return keeper_was_killed_; }
  bool gave_up() const { return gave_up_; }            // true if processes have survived SIGKILL
  bool asked_to_end() const { return asked_to_end_; }  // true if a signal or --timeout has asked the job to end
  int exit_code() const { return exit_code_; }
  // True if the job may succeed when it is started again: it has failed, but not with a status that means wrong usage,
  // and the user has not ended it.
  bool may_pass() const;
  int culprit() const { return culprit_; }           // the rank that failed first, or -1
  bool failed() const { return !failure_.empty(); }  // false if the user ended the job
  // Returns the text to append to "the job failed": the reason, or only the rank that failed first; then the ranks that
  // failed because of it, and the ranks that the launcher ended.
  virtual std::string summary(bool with_reason) const = 0;

 protected:
  // The three phases after `running` occur only in a job of a fixed size.
  enum class Phase { running, searching, named, reporting, ending, aborting, killing, over };

  virtual void exited(const Report& report, Clock::time_point now) = 0;
  virtual void not_started(int rank, int problem, Clock::time_point now);  // `problem`: see start_problem.hpp
  // The time of the next call of wake(); only used until the job is ended.
  virtual std::optional<Clock::time_point> wakes_at() const = 0;
  virtual void wake(Clock::time_point now) = 0;
  virtual void name_cause() {}                // called if the job is ended while the cause of its failure is searched
  virtual bool failure_may_pass() const = 0;  // see may_pass()

  void enter(Phase phase, Clock::time_point deadline);
  void end(int signal, const std::string& why, Clock::time_point now);
  bool abort(int culprit, const std::string& why);
  // "rank 3 (pid 7) was killed by SIGSEGV on node-a"
  std::string describe(const Report& end) const;
  std::string list_ended() const;  // "; the launcher ended ranks 1, 2", or nothing

  const Job& job_;
  Actions actions_;
  RankTable ranks_;
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_;  // when the current phase ends at the latest
  int culprit_ = -1;                           // the rank that failed first, or the rank that caused its failure
  std::string why_;                            // why the job ends; the ranks receive it
  std::string failure_;  // the reason of the failure, for the summary; empty: the job has not failed
  int exit_code_ = 0;

 private:
  void kill(Clock::time_point now);
  void timed_out(Clock::time_point now);
  std::string lack_of_memory() const;

  // How many processes the kernel had killed for lack of memory before this job; empty: it cannot be found out.
  const std::optional<std::uint64_t> kills_before_;
  std::optional<Clock::time_point> job_limit_;
  std::vector<int> ended_;  // ranks that the launcher ended, ascending
  Clock::time_point signalled_at_{};
  bool keeper_was_killed_ = false, gave_up_ = false, abort_sent_ = false, interrupted_ = false, asked_to_end_ = false;
};

int exit_code_of_status(int status);  // `status`: the status of waitpid(); returns 128+n for signal n
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace anello::launch
