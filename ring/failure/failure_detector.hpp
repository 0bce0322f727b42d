// Collects everything that one rank finds out about failures in its world. Its input is what this rank observes, and
// the control messages of the other ranks. Its output is the verdict, reports for people, and messages to send. It has
// four state machines, which share one flood: FailureAgreement (why the world ends), Departures (which rank left which
// group, and when), MismatchDetector (which rank called which operation) and StallReports (which rank waits for which).
// When ranks leave, the ControlGraph decides which new connections the remaining ranks need.
//
// The detector itself stores only the suspects: ranks whose data connection ended. The reason may arrive over the
// control plane a moment later, so this rank waits 200 ms before it proposes that a suspect is dead. Pure: no sockets,
// no clock (time is passed in); one thread. The ControlPlane owns the detector.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/failure/agreement.hpp"
#include "ring/failure/control_graph.hpp"
#include "ring/failure/departures.hpp"
#include "ring/failure/flood.hpp"
#include "ring/failure/local_view.hpp"
#include "ring/failure/mismatches.hpp"
#include "ring/failure/stall_reports.hpp"
#include "ring/failure/stragglers.hpp"

namespace anello::failure {

class FailureDetector {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point
  static constexpr Time kSuspicionLimit = Flood::kGoodbyeLimit;

  // `hosts`: by rank.
  FailureDetector(int rank, std::vector<std::string> hosts, LocalView::Recall recall);
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;

  // Events. Each may put messages into the outbox, and may lead to the verdict.
  void receive(std::string_view bytes, Time now);  // throws Error{protocol} if the bytes are not a control message
  void connected(int rank);                        // a control connection was made; sends the rank all findings so far
  void unreachable(int rank);                      // a control connection to the rank could not be made
  void lost(int rank, std::string_view how, Time now);  // the rank's control connection ended
  void silent(int rank, Time since, Time now);          // no message has arrived from the rank for the time `since`
  void slow(const Straggler& straggler, Time now);      // a rank keeps this rank waiting
  // A data connection of the group, between the rank and this rank, ended.
  void suspect(int rank, std::uint64_t group, std::string_view how, Time now);
  // Proposes that the world ends. `limit`: how long to wait for the arbiter's decision.
  void propose(const Verdict& verdict, Time now, Time limit = FailureAgreement::kArbiterLimit);
  void stood_still(Time now) { agreement_.stood_still(now); }  // call this if this process did not run for some time

  // This rank's groups and operations. The world exists from the beginning, as group 0. Call enroll() when this rank
  // joined another group.
  void enroll(std::uint64_t group, std::string name, std::vector<int> members, Time now);
  void leave(std::uint64_t group, std::uint64_t completed);     // `completed`: the group's operations completed so far
  void leaves_by_exception() { departures_.note_exception(); }  // call this before leave()
  // True if the neighbour that sent these bytes is leaving, and waits until this rank echoes them. Call after
  // receive().
  bool is_goodbye_of(int neighbour, std::string_view bytes) const;
  // True if these bytes are a neighbour's echo of this rank's goodbye to the world. In that case, everything that the
  // neighbour sent before the echo has been received. Call after leave() of the world.
  bool is_own_goodbye(std::string_view bytes) const { return flood_.contains(bytes, {view_.rank(), goodbye_}); }
  void needs(const Signature& mine, Time now);  // the operation began; checks whether a member has left the group
  // Call when an operation needs messages of all members. Proposes a verdict if a member had completed at most
  // `completed` operations when it left the group. `conflict`: describes this rank's call.
  void needs_messages(std::uint64_t group, std::uint64_t completed, std::string_view conflict, Time now);
  // Call when the operation makes no progress. Finds out whether other ranks call a different operation.
  void waiting(const Signature& mine, Time now);
  void moving(const Signature& mine);  // the operation makes progress again
  // Call when this rank has refused a call of its program.
  void refused(std::uint64_t group, const LocalView::Refusal& refusal, Time now);
  // Call when a peer sent a different operation, which `verdict` describes.
  void differs(const NamedSignature& mine, int peer, const Signature& theirs, const Verdict& verdict, Time now);
  // Call when these peers sent other counts than this rank expects; `verdict` describes one of the peers.
  void contradicts(const NamedSignature& mine, const std::vector<int>& peers, const Verdict& verdict, Time now);
  void stalled(const Signature& mine, Time period, Time now);  // no progress for `period`; reports the stall
  void overdue(const Signature& mine, Time limit, Time now);   // no progress for `limit`; ends the world

  void tick(Time now);              // call when due() has come
  std::optional<Time> due() const;  // empty: nothing is pending

  std::vector<int> take_calls(Time now) { return graph_.take_calls(now); }  // ranks to which this rank must connect
  std::vector<std::string> take_outbox() { return flood_.take_outbox(); }   // messages for every neighbour
  void pass_on() { flood_.pass_on(); }      // sends delayed goodbyes now, because this rank leaves
  std::vector<std::string> take_reports();  // reports of stalls and stragglers, one line each, equal on all ranks
  bool is_lowest() const { return graph_.is_lowest(); }  // true if all lower ranks have left
  const std::optional<Verdict>& verdict() const { return agreement_.verdict(); }
  bool has_left(int rank) const { return departures_.has_left(rank); }
  // Returns the first operation of the group that cannot complete, because another rank left the group before that
  // operation. UINT64_MAX if there is no such operation.
  std::uint64_t ends_at(std::uint64_t group) const { return departures_.ends_at(group); }

 private:
  struct Suspect {
    int rank = -1;
    std::uint64_t group = 0;
    Verdict verdict;
    Time due{0};
  };

  void route(const ControlMessage& message, Time now);
  void receive_call(int origin, const NamedSignature& theirs, Time now);
  void forget_groups();
  void take_completed_stalls(Time now);
  void propose_if_any(const std::optional<Verdict>& verdict, Time now);
  void report_straggler(int complainant, const Straggler& straggler, Time now);
  void propose_suspects(Time now);
  Verdict dead(int rank, std::string_view how) const;

  LocalView view_;
  Flood flood_;
  ControlGraph graph_;
  FailureAgreement agreement_;
  Departures departures_;
  MismatchDetector mismatches_;
  StallReports stalls_;
  StragglerReports stragglers_;
  std::vector<Suspect> suspects_;
  std::uint32_t goodbye_ = 0;  // number of this rank's goodbye to the world
  std::vector<std::string> reports_;
};

}  // namespace anello::failure
