// The flight recorder's file: a rank's last operations as JSON, for people and programs. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ring/trace/record.hpp"

namespace anello::trace {

struct FlightHead {
  std::string_view job, host, why;
  std::uint32_t generation = 1;
  std::uint64_t incarnation = 0;
  int rank = 0, size = 1;
  std::int64_t unix_us = 0;  // wall clock time at `now`
  TickClock::Moment now;
};

// Returns {"rank", "host", ..., "groups": [{"id", "group", "members", "operations": [{"sequence", "operation", "name",
// "state", "queued_us", "begun_us", "ended_us"}]}]}. Operations are in order, the oldest first. Times are microseconds
// since 1970; null: the event has not happened yet. The state is "queued", "begun" or "done". After a world has failed,
// no operation becomes done.
std::string flight_json(const FlightHead& head, const TickClock::Scale& scale, const std::vector<History>& histories);

}  // namespace anello::trace
