// Starts that have failed, and which ranks have received the reason: ranks that join late belong to the failed start,
// or to the next one. Owned by the roster. Pure.
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

  // The rank has received this reason, or caused it.
  void note(int rank, const Failed& why) { reasons_[rank] = why; }
  void clear() { reasons_.clear(); }  // a world has formed
  // The reason that the rank received or caused; null if there is none.
  const Failed* reason_of(int rank) const;

  // A start failed because of one rank before all had joined: its other ranks receive the reason when they join, until
  // `until`. `informed`: the ranks that have it.
  void keep(const Failed& why, Time now, Time until, std::set<int> informed) {
    kept_ = {why, now, until, std::move(informed)};
  }
  // Returns the failure that this late rank must receive, or null if the rank belongs to the next start. The next start
  // clears the failure, unless the rank's process began after the failure: other ranks of the failed start may still
  // come, and must not be taken for ranks of the next one.
  const Failed* failure_for(const Join& late, Time now);

  // From now on every rank that joins receives `why`. `by`: the rank that reports it.
  void conclude(const Failed& why, int by);
  bool concluded() const { return conclusion_.has_value(); }
  // After conclude(): the reply to a rank that joins.
  Reply reply_to(int rank);
  // True if `ranks` ranks have received the reason, or one has joined twice, so that another start has begun.
  bool all_informed(int ranks) const { return superseded_ || reasons_.size() >= std::size_t(ranks); }

 private:
  struct Kept {
    Failed why;
    Time when;               // processes that began later belong to another start
    Time until;              // its ranks may join until then
    std::set<int> informed;  // ranks; one that joins once more belongs to the next start
  };

  std::map<int, Failed> reasons_;  // by rank
  std::optional<Kept> kept_;
  std::optional<Failed> conclusion_;
  bool superseded_ = false;
};

}  // namespace anello::rendezvous
