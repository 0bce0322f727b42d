// Supervises a job whose world has a fixed size: the first failure of a rank ends all ranks. Pure, like its base.
//
//   running --first failure--> searching, named (0.2 s) --> reporting (0.8 s: errors of other ranks) --> ending
//      \----signal, closed pipe, last rank ended---------------------------------------------------------->/
// Named: if the failure breaks connections, the ranks themselves agree on its cause, because they have more information
// than the launcher. If the failure breaks no connection (a rank that has left the world exits with an error), the
// launcher aborts the world after the 0.2 s. The cause is the exit of the rank that the ranks themselves blame
// (LastWord). If they blame no rank, it is the most likely of the exits that come while the launcher searches.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/processes/blame.hpp"
#include "rendezvous/launch/processes/supervisor.hpp"

namespace anello::launch {

class FixedSupervisor : public Supervisor {
 public:
  FixedSupervisor(const Job& job, Actions actions);

  void received(const world::LastWord& word, Clock::time_point /*now*/) override { blame_.received(word); }
  void host_lost(const HostLoss& loss, Clock::time_point now) override;
  std::string summary(bool with_reason) const override;

 private:
  void exited(const Report& report, Clock::time_point now) override;
  std::optional<Clock::time_point> wakes_at() const override;
  void wake(Clock::time_point now) override;
  void name_cause() override;
  // If a host could not even be used at the first start, its loss is a mistake of the user, and does not pass.
  bool failure_may_pass() const override;

  int likelihood(const Report& end) const;
  bool may_be_a_lost_host(const Report& end) const;
  void end_if_all_ended(Clock::time_point now);
  std::optional<Clock::time_point> leftovers_due() const;
  void name_leftovers(Clock::time_point now);

  Clock::time_point last_end_{};  // when the last rank ended
  // No message about ranks that still run is printed until this time has passed since last_end_.
  Clock::duration silence_told_{};
  std::optional<Report> cause_;  // the failure that ends the job; may be corrected during the search
  Blame blame_;
  std::vector<int> failed_;  // ranks that have failed, in the order of their exits
  Clock::time_point failed_at_{};
  bool lost_host_ = false, left_stopped_ = false;
};

}  // namespace anello::launch
