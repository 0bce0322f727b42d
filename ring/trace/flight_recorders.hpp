// The recorders of all groups of one rank, and what those that have ended counted. Any thread.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/trace/flight_recorder.hpp"

namespace anello {

class FlightRecorders {
 public:
  void add(std::shared_ptr<FlightRecorder> recorder);
  void remove(std::uint64_t group);  // its counts stay

  std::shared_ptr<FlightRecorder> find(std::uint64_t group) const;  // null if there is none
  std::vector<std::shared_ptr<FlightRecorder>> all() const;
  Totals totals() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<FlightRecorder>> recorders_;  // by group
  Totals of_ended_;
};

}  // namespace anello
