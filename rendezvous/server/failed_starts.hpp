// Starts that have failed, and the ranks that have received the reason. A rank that joins late belongs to the failed
// start or to the next one. Owned by the roster. Pure.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

class FailedStarts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Records that the rank has received this reason, or has caused it.
  void note(int rank, const Failed& why) { reasons_[rank] = why; }
  void clear() { reasons_.clear(); }  // call this when a world has formed
  // The reason that the rank received or caused; null if there is none.
  const Failed* reason_of(int rank) const;

  // Call when a start failed because of one rank before all ranks had joined. The other ranks of this start receive the
  // reason when they join, until `until`. `informed`: the ranks that already have the reason.
  void keep(const Failed& why, Time now, Time until, std::set<int> informed) {
    kept_ = {why, now, until, std::move(informed)};
  }
  // Returns the failure that this late rank must receive. Returns null if the rank belongs to the next start; this also
  // clears the failure. But if the rank's process began after the failure, the failure is not cleared: other ranks of
  // the failed start may still come, and must not be taken for ranks of the next start.
  const Failed* failure_for(const Join& late, Time now);

  // After this call, every rank that joins receives `why`. `by`: the rank that reports it.
  void conclude(const Failed& why, int by);
  bool concluded() const { return conclusion_.has_value(); }
  // Call after conclude(). Returns the reply to a rank that joins.
  Reply reply_to(int rank);
  // True if `ranks` ranks have received the reason, or if one rank has joined twice, because then another start has
  // begun.
  bool all_informed(int ranks) const { return superseded_ || reasons_.size() >= std::size_t(ranks); }

 private:
  struct Kept {
    Failed why;
    Time when;               // processes that began later belong to another start
    Time until;              // the failed start's ranks may join until then
    std::set<int> informed;  // ranks with the reason; if such a rank joins again, it belongs to the next start
  };

  std::map<int, Failed> reasons_;  // by rank
  std::optional<Kept> kept_;
  std::optional<Failed> conclusion_;
  bool superseded_ = false;
};

}  // namespace anello::rendezvous
