// Supervises an elastic job: a process that fails is replaced, and the others go on meanwhile. Pure, like its base. A
// "rank" of the launcher is a place here: a number of the launcher, whose process may be replaced.
//
// The job is ended as a failure if fewer than --min-np processes run or can be started, if no process is left that had
// the state of the training, and if all processes have ended before one has finished its training. Some failures are
// not repeated: a place is closed if its process has failed twice in a row before it trained, and if the restarts
// (--max-restarts) are used up. A process that ends with status 0 before the training has ended has left, and is not
// replaced. After the first process has finished, nothing is started any more.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/processes/supervisor.hpp"

namespace anello::launch {

// The membership of the job at the rendezvous server, as far as a supervisor needs it.
struct MembershipView {
  struct Member {
    int place;
    bool trains;  // it is in a world, or was
  };
  bool begun = false, finished = false;  // the training, on one process at least
  std::vector<Member> members;
};

class ElasticSupervisor : public Supervisor {
 public:
  // `look`: returns the present membership; called on the launcher's thread.
  ElasticSupervisor(const Job& job, Actions actions, std::function<MembershipView()> look);

  void host_lost(const HostLoss& loss, Clock::time_point now) override;
  std::string summary(bool with_reason) const override;

 private:
  struct Left {  // a process that has ended with status 0
    Report report;
    Clock::time_point at;
  };
  struct Place {
    bool closed = false;                   // no process is started here any more
    bool alive = false;                    // its process was ordered, and has not ended
    bool joined = false, trained = false;  // its process, according to the membership
    int starts = 0;
    int failures = 0;        // processes in a row that have failed soon after their start
    int early_failures = 0;  // processes in a row that have failed before they trained
    Clock::time_point started{}, rests_until{};
    std::optional<Clock::time_point> absent_since{};  // since when its living process is no longer in the membership
    std::optional<Left> left{};
  };

  void exited(const Report& report, Clock::time_point now) override;
  std::optional<Clock::time_point> wakes_at() const override { return next_look_; }
  void wake(Clock::time_point now) override;
  bool failure_may_pass() const override { return !failure_.empty(); }

  void look(Clock::time_point now);
  void process_failed(const Report& report, Clock::time_point now);
  void kill_others_of_host(int failed_place);
  void fill(Clock::time_point now);
  bool start(int number, Clock::time_point now);
  void kill_if_cut_off(int number, Clock::time_point now);
  void end_if_over(Clock::time_point now);
  bool name_those_that_left(Clock::time_point now);
  void give_up(const std::string& why, Clock::time_point now);
  int running() const;
  int restarts_left() const;
  int startable() const;
  Place& at(int place) { return places_[std::size_t(place)]; }

  const ElasticJob limits_;
  const std::function<MembershipView()> look_;
  MembershipView view_;
  std::vector<Place> places_;
  int target_;      // how many processes should run
  int starts_ = 0;  // of all processes
  bool any_trained_ = false;
  std::optional<Report> failure_cause_;  // the newest failure
  Clock::time_point next_look_{};
};

}  // namespace anello::launch
