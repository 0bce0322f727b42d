// The flight recorders of all groups of one rank, and the counts of groups that were removed. Any thread.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/trace/flight_recorder.hpp"

namespace anello::trace {

class FlightRecorders {
 public:
  // `name`: for people, for example "group (0, 2)". `members`: world ranks.
  void add(std::uint64_t group, std::string name, std::vector<int> members, std::shared_ptr<FlightRecorder> recorder);
  void remove(std::uint64_t group);  // keeps the group's counts

  std::shared_ptr<FlightRecorder> find(std::uint64_t group) const;  // null if the group does not exist
  std::vector<History> histories() const;                           // histories of all groups, sorted by group
  Totals totals() const;

  struct GroupTotals {
    std::uint64_t group = 0;
    std::vector<int> members;
    Totals totals;
  };
  std::vector<GroupTotals> totals_by_group() const;  // without the groups that were removed

 private:
  struct Group {
    std::string name;
    std::vector<int> members;
    std::shared_ptr<FlightRecorder> recorder;
  };

  mutable Mutex mutex_;
  std::map<std::uint64_t, Group> groups_ ANELLO_GUARDED_BY(mutex_);
  Totals of_ended_ ANELLO_GUARDED_BY(mutex_);
};

}  // namespace anello::trace
