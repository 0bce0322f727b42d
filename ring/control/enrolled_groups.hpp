// The groups that have this rank as a member, for the control plane: their members, their bells and their newest
// operations, which other ranks ask for. Any thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/failure/failure_detector.hpp"
#include "ring/link/group_info.hpp"
#include "ring/net/reserved_post.hpp"
#include "ring/trace/flight_recorders.hpp"

namespace anello::control {

class EnrolledGroups {
 public:
  explicit EnrolledGroups(trace::FlightRecorders& recorders) : recorders_(recorders) {}

  void add(std::shared_ptr<const link::GroupInfo> group);
  void remove(std::uint64_t group);  // removes the group, but keeps its counts
  // If this rank is in the group, calls post(place), where `place` is reserved for the group's goodbye. Allocates no
  // memory.
  template <class Post>
  void say_goodbye(std::uint64_t group, Post post) noexcept {
    const MutexLock lock(mutex_);
    const auto enrolled = groups_.find(group);
    if (enrolled != groups_.end()) post(enrolled->second.goodbye);
  }
  void ring_bells() const;

  // Returns the operation that this rank began as number `sequence` of the group.
  std::optional<NamedSignature> recall(std::uint64_t group, std::uint64_t sequence) const;
  // Reports to the detector each operation of this rank that cannot complete, because a member left the group before
  // that operation.
  void check_departures(failure::FailureDetector& detector, failure::FailureDetector::Time now) const;
  failure::StragglerDetector::Groups waits(const trace::TickClock::Scale& scale) const;

 private:
  struct Enrolled {
    std::shared_ptr<const link::GroupInfo> info;
    net::ReservedPost goodbye;
  };
  std::vector<std::shared_ptr<const link::GroupInfo>> all() const;

  trace::FlightRecorders& recorders_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, Enrolled> groups_ ANELLO_GUARDED_BY(mutex_);  // by id
};

}  // namespace anello::control
