// How the ranks agree on one verdict: why the world ends. Pure: time is passed in, messages go to the Flood; one
// thread.
//
// A rank that notices a failure proposes a verdict, once. The arbiter is the lowest rank that is alive: it publishes
// the first proposal that it receives as the decision, and all ranks adopt the first decision that they receive. If no
// decision has come 1.5 s after a rank's first proposal, that rank publishes the proposal of the lowest rank that it
// has; ranks that are connected have the same proposals by then, so they publish the same verdict. An arbiter that is
// known to be dead or to have left is replaced by the next rank at once.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "ring/failure/flood.hpp"

namespace anello::failure {

class FailureAgreement {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point
  static constexpr Time kArbiterLimit{1500}, kSilentArbiterLimit{300};

  FailureAgreement(int rank, int size, Flood& flood);

  // Sends this rank's proposal, unless it has sent one or there is a verdict. A message that is too long is cut.
  // `limit`: for the arbiter's decision. A rank that has proposed a verdict leaves because of that: nothing is proposed
  // against it for having left.
  void propose(const Verdict& verdict, Time now, Time limit = kArbiterLimit);
  void receive_proposal(int origin, const Verdict& verdict, Time now);
  void receive_decision(const Verdict& verdict);

  // Sends the verdict, or else this rank's proposal, once more: a neighbour that is connected only now has not received
  // it, and may not before this rank's goodbye.
  void repeat();

  // The rank is dead or has left the world: it cannot be the arbiter.
  void exclude(int rank) { excluded_.insert(rank); }

  // This process did not run for some time. The others may have decided meanwhile, and their messages are not read yet:
  // so it decides nothing for 100 ms.
  void stood_still(Time now);

  void tick(Time now);              // call when due() has come
  std::optional<Time> due() const;  // nothing: no proposal waits for a decision
  const std::optional<Verdict>& verdict() const { return verdict_; }

 private:
  void consider(int origin, const Verdict& verdict, Time now, Time limit);
  void decide(const Verdict& verdict);
  int arbiter() const;

  int rank_, size_;
  Flood& flood_;
  std::set<int> excluded_;
  std::map<int, Verdict> proposals_;  // by origin
  std::optional<Time> decide_by_;     // if the arbiter has not decided
  Time decide_from_{0};               // not before
  std::optional<Verdict> verdict_;
};

}  // namespace anello::failure
