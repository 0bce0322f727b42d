// Proves plans correct without running them: interprets the plans of all ranks together on symbols instead of numbers.
// For tests and for authors of algorithms; nothing on the path of a collective calls it. Meant for small counts.
//
// Each element of a step is an event of its own, and links hold very little. Which events can happen depends only on
// progress, and progress only grows. So if one schedule reaches its end, all schedules do. Between two streams of a
// rank, only a dependency guarantees the order of events (vector clocks record these orders). So a plan must protect
// its own memory, no matter what its peers do.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/plan/plan.hpp"

namespace anello::plan {

struct Expectation {
  Kind kind = Kind::allreduce;
  bool rank_order = false;  // reductions: every element is ((x0 + x1) + x2) + ...
  int root = 0;             // for broadcast, reduce, gather, scatter and transfer
  // The number of elements of each rank's part, if the parts are not equal. For alltoall: the elements that go from
  // rank 0 to each rank, then the elements from rank 1, and so on.
  std::vector<std::uint64_t> counts = {};
};

// Checks the plans (entry r is rank r's plan), over links that hold in_flight_elems: out of place and, unless the plans
// are out_of_place_only, in place. Returns an empty result if the plans are correct, otherwise the first problem.
// Correct means:
// - each plan is well formed, and its accesses are within its buffers;
// - every element sent is the one that the receiver expects, and no element is left over;
// - two accesses to the same element, at least one of them a write, are ordered, and nothing is read before it is
//   written;
// - every contribution is in every result exactly once, with equal brackets on all ranks, and every element of a
//   reduction is made a result (an average is divided) exactly once, by one step, when it has all contributions.
std::optional<std::string> check(std::span<const Plan> ranks, Expectation expectation,
                                 std::uint64_t in_flight_elems = 1);

}  // namespace anello::plan
