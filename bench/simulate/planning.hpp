// The cost of planning on one rank: the time of the first call for a kind and size, and the memory that stays in use.
#pragma once
#include "bench/simulate/simulated_ranks.hpp"

namespace anello::bench {

struct Planning {
  double ms = 0;  // time of the slowest of three ranks (first, middle, last); the minimum of a few measurements
  std::uint64_t steps = 0, plan_bytes = 0, scratch_elems = 0;  // maxima over these three ranks
};

Planning measure_planning(const Job& job);

std::uint64_t memory_bytes(const plan::Plan& plan);

}  // namespace anello::bench
