// What planning costs one rank: the time that the first call of a shape pays, and what stays in memory.
#pragma once
#include "bench/simulate/cast.hpp"

namespace anello::bench {

struct Planning {
  double ms = 0;  // the least of a few times, of the slowest of the first, the middle and the last rank
  std::uint64_t steps = 0, plan_bytes = 0, scratch_elems = 0;  // the largest of theirs
};

Planning measure_planning(const Job& job);

std::uint64_t memory_bytes(const Plan& plan);

}  // namespace anello::bench
