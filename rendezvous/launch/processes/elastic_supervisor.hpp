// Supervises an elastic job: a process that fails is replaced, and the others go on meanwhile. Pure, like its base. The
// launcher's "ranks" are called places here: a place is a number of the launcher, whose process may be replaced.
//
// The job is ended as a failure in three cases: fewer than --min-np processes run or can be started; no process is left
// that had the state of the training; all processes have ended before one has finished its training. Two rules keep
// failures from repeating: a place is closed if its process has failed twice in a row before it trained, and also if
// the restarts (--max-restarts) are used up. A process that ends with status 0 before the training has ended has left,
// and is not replaced. After the first process has finished its training, no process is started any more.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/processes/supervisor.hpp"

namespace anello::launch {

// The membership of the job at the rendezvous server, as far as a supervisor needs it.
struct MembershipView {
  struct Member {
    int place;
    int rank;              // the process's rank in the newest world; -1: it was in no world
    std::int64_t id = -1;  // a number that no other process has; -1: the membership gives none
    bool awaited = false;  // true if the next world cannot begin before this process has entered or ended
    bool retires = false;  // true if it leaves at the next commit, because it was asked to or has asked for it
    bool trained = false;  // true if it has had the state, and trained
  };
  std::uint32_t generation = 0;          // number of the newest world
  int worlds = 0;                        // how many worlds have been completed by all their ranks
  bool begun = false, finished = false;  // true if at least one process has begun, or finished, its training
  std::vector<Member> members;
  std::map<int, std::int64_t> released;  // by place: the id of the newest process that has left because it was asked to
  bool lost = false;                     // true if all processes that had the state of a training have ended
  struct Seat {
    int place;
    std::int64_t id;
  };
  std::map<std::uint32_t, std::vector<Seat>> ranks;  // by number of one of the newest worlds, then by rank
};

std::string counted_processes(int count);  // "1 process", "2 processes"

class ElasticSupervisor : public Supervisor {
 public:
  // `look`: returns the present membership; called on the launcher's thread.
  ElasticSupervisor(const Job& job, Actions actions, std::function<MembershipView()> look);

  void received(const world::LastWord& word, Clock::time_point now) override;
  void host_lost(const HostLoss& loss, Clock::time_point now) override;
  std::string summary(bool with_reason) const override;

  // resize() and remove() return a sentence for the user that says what changes. If the request is not possible, they
  // throw Error{invalid_argument} that says which requests are possible.
  //
  // Changes how many processes run: starts processes, or asks the processes with the highest places to leave at the
  // next commit.
  std::string resize(int processes, Clock::time_point now);
  // Asks the processes at these places to leave. No process is started at these places any more.
  std::string remove(const std::vector<int>& places, Clock::time_point now);
  // For a job whose hosts may change. Call grow() when the job's layout has grown, and leave_places() when the host of
  // these places is no longer listed. The job then runs as many processes as its open places allow, at most --max-np,
  // and at most the number of the last resize(). If a script lists the hosts, and the job has fewer than --min-np
  // processes, it waits for hosts, as long as the job's patience allows.
  void grow(Clock::time_point now);
  void leave_places(const HostRanks& places, Clock::time_point now);
  bool is_empty(const HostRanks& places) const;     // true if no process is there, and none starts there
  std::string status(Clock::time_point now) const;  // a table of all places

 private:
  struct Left {  // a process that has ended with status 0
    Report report;
    Clock::time_point at;
  };
  struct Place {
    bool closed = false;  // true if no process is started here any more
    bool alive = false;   // true if the start of its process was ordered, and the process has not ended
    // True if its process has joined, has trained, or has had a rank, according to the membership. A rank may have got
    // the state before it begins to train.
    bool joined = false, trained = false, may_have_state = false;
    bool leaves = false;            // true if its process was asked to leave
    bool has_notice = false;        // true if its process leaves because of a signal to it
    bool released = false;          // true if its process has left because it was asked to
    bool closes_others = false;     // true if free places of its host were closed because of a signal to its process
    bool is_missed = false;         // true if the others go on without its process, although it may still run
    bool host_ended = false;        // true if the other processes of its host were ended because of its process
    bool ends_with_host = false;    // true if its process is killed because another process of its host has failed
    int rank = -1;                  // its process's rank in the newest world
    bool awaited = false;           // true if the membership awaits its process, see Member
    std::int64_t member = -1;       // the id of its newest process in the membership
    std::int64_t predecessor = -1;  // the id of the process that has ended at this place
    int starts = 0;
    int failures = 0;        // processes in a row that have failed soon after their start
    int early_failures = 0;  // processes in a row that have failed before they trained
    Clock::time_point started{}, rests_until{};
    // The time since which its process is no longer in the membership, although it still runs.
    std::optional<Clock::time_point> absent_since{};
    std::optional<Left> left{};

    bool stays() const { return alive && !leaves && !has_notice; }
  };

  void exited(const Report& report, Clock::time_point now) override;
  void not_started(int number, int problem, Clock::time_point now) override;
  std::optional<Clock::time_point> wakes_at() const override { return next_look_; }
  void wake(Clock::time_point now) override;
  bool failure_may_pass() const override { return !failure_.empty(); }

  void look(Clock::time_point now);
  void process_failed(const Report& report, Clock::time_point now);
  void note_notice(int number);
  void left_after_notice(int number, Clock::time_point now);
  // Returns how many processes in a row have failed soon after their start, if this place's process fails now.
  static int failures_at(Clock::time_point now, const Place& place);
  void let_rest(int failed_place, int failures, Clock::time_point now);
  bool has_no_rank(const Place& place) const;
  Place* culprit_of(const world::LastWord& word);
  void kill_others_of_host(int failed_place);
  void fill(Clock::time_point now);
  void report_newcomers(Clock::time_point now);
  bool start(int number, Clock::time_point now);
  void ask_to_leave(int number);
  void require_running() const;
  void fit_places(Clock::time_point now);
  void aim_at(int processes);
  void kill_if_cut_off(int number, Clock::time_point now);
  void end_if_over(Clock::time_point now);
  bool name_those_that_left(Clock::time_point now);
  void give_up(const std::string& why, Clock::time_point now);
  int running() const;
  int staying() const;  // how many of them were not asked to leave
  int startable() const;
  Place& at(int place) { return places_[std::size_t(place)]; }

  const ElasticJob limits_;
  const std::function<MembershipView()> look_;
  MembershipView view_;
  std::vector<Place> places_;
  int target_;         // how many processes should run that were not asked to leave
  int wished_;         // the number of the last resize(); if there was none, --max-np
  int fresh_;          // how many processes are still to be started that replace no other process
  int restarts_ = 0;   // processes that have replaced another one
  int newcomers_ = 0;  // the number of processes on their way that was reported last
  bool any_trained_ = false, any_left_ = false;   // a process has trained, or has ended with status 0 before the end
  std::optional<Report> failure_cause_;           // the newest failure
  std::optional<Clock::time_point> short_since_;  // since when too few processes run or can be started
  Clock::time_point next_look_{};
};

}  // namespace anello::launch
