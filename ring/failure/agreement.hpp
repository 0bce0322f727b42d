// Makes the ranks agree on one verdict, the reason why the world ends. Pure: time is passed in, messages go to the
// Flood; one thread.
//
// A rank that notices a failure proposes a verdict, once, and reports each further death that it notices. The arbiter
// is the lowest rank that is alive and connected. The arbiter publishes the first proposal that it receives as the
// decision, and all ranks adopt the first decision that they receive. Several deaths at once may divide the ranks into
// parts without a connection between them, and each part then has its own arbiter. If no decision has arrived 1.5 s
// after a rank's first proposal, the rank decides by itself: it publishes the proposal with the lowest origin among
// those that it has. By then all ranks that are connected have the same proposals, so they publish the same verdict.
// When a rank finds out that the arbiter is dead, has left or is not connected, the next rank is its arbiter at once.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ring/failure/flood.hpp"

namespace anello::failure {

class FailureAgreement {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point
  static constexpr Time kArbiterLimit{1500}, kSilentArbiterLimit{300};

  FailureAgreement(int rank, int size, Flood& flood);

  // Sends this rank's proposal. Does nothing if there is a verdict, or if this rank has already sent a proposal and
  // `verdict` does not report a further death. A message that is too long is cut. `limit`: how long to wait for the
  // arbiter's decision. After a proposal, this rank may leave because of the failure, and no rank proposes a verdict
  // against it for leaving.
  void propose(const Verdict& verdict, Time now, Time limit = kArbiterLimit);
  void receive_proposal(const ControlMessageId& id, const Verdict& verdict, Time now);
  void receive_decision(const Verdict& verdict);

  // Sends the verdict again, or this rank's proposal if there is no verdict. Call when a neighbour has just connected,
  // because the neighbour has not received this message, and might receive this rank's goodbye first.
  void repeat();

  // Call when the rank has left the world or does not answer, so that it cannot be the arbiter.
  void exclude(int rank);
  // Call when the rank is dead, so that it can neither be the arbiter nor pass messages on.
  void died(int rank);

  // Call when this process did not run for some time. The other ranks may have decided in that time, and this process
  // has not read their messages yet. So this rank decides nothing for 100 ms.
  void stood_still(Time now);

  void tick(Time now);              // call when due() has come
  std::optional<Time> due() const;  // empty: no proposal waits for a decision
  const std::optional<Verdict>& verdict() const { return verdict_; }

 private:
  void consider(const ControlMessageId& id, const Verdict& verdict, Time now, Time limit);
  void decide(const Verdict& verdict);
  int arbiter() const { return arbiter_ < size_ ? arbiter_ : rank_; }
  void choose_arbiter();

  int rank_, size_;
  Flood& flood_;
  std::set<int> excluded_, dead_;
  std::size_t degree_;           // if fewer ranks than this are dead, all others are connected
  std::vector<bool> connected_;  // by rank: true if connected with this rank; empty: all ranks are connected
  int arbiter_ = 0;              // the lowest rank that is not excluded, and connected
  // The first proposal of each origin. All ranks take the same proposal, although messages may arrive in any order.
  struct Proposal {
    std::uint32_t number;  // of the message
    Verdict verdict;
  };
  std::map<int, Proposal> proposals_;
  std::optional<Time> decide_by_;  // when this rank decides if no decision has arrived
  Time decide_from_{0};            // before this time, this rank does not decide
  std::optional<Verdict> verdict_;
};

}  // namespace anello::failure
