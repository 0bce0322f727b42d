// The cost of planning for one rank: the time that the first call of a shape takes, and the memory that stays in use.
#pragma once
#include "bench/simulate/simulated_ranks.hpp"

namespace anello::bench {

struct Planning {
  double ms = 0;  // the best of a few measurements, for the slowest of the first, the middle and the last rank
  std::uint64_t steps = 0, plan_bytes = 0, scratch_elems = 0;  // the largest of these ranks
};

Planning measure_planning(const Job& job);

std::uint64_t memory_bytes(const plan::Plan& plan);

}  // namespace anello::bench
