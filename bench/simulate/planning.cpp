#include "bench/simulate/planning.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace anello::bench {
namespace {

constexpr int kRepetitions = 3;

template <class T>
std::uint64_t bytes_of(const std::vector<T>& all) {
  return all.capacity() * sizeof(T);
}

}  // namespace

std::uint64_t memory_bytes(const plan::Plan& plan) {
  return sizeof plan + bytes_of(plan.steps) + bytes_of(plan.streams) + bytes_of(plan.sources) + bytes_of(plan.deps);
}

Planning measure_planning(const Job& job) {
  using Clock = std::chrono::steady_clock;
  const JobPlans plans(job);
  Planning all;
  for (const int rank : {0, job.world / 2, job.world - 1}) {
    double min_ms = std::numeric_limits<double>::max();
    for (int i = 0; i < kRepetitions; i++) {
      const auto start = Clock::now();
      const plan::Plan plan = plans.of(rank);
      const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
      min_ms = std::min(min_ms, taken.count());
      all.steps = std::max<std::uint64_t>(all.steps, plan.steps.size());
      all.plan_bytes = std::max(all.plan_bytes, memory_bytes(plan));
      all.scratch_elems = std::max(all.scratch_elems, plan.scratch_elems);
    }
    all.ms = std::max(all.ms, min_ms);
  }
  return all;
}

}  // namespace anello::bench
