// Jobs that are disturbed at random. ANELLO_ELASTIC_RUNS=1000 repeats such a test with other seeds; ANELLO_ELASTIC_SEED
// is the first seed.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/support/undisturbed.hpp"

namespace anello::launch {

inline constexpr std::chrono::milliseconds kSilenceLimit{2000};

// Calls `carry_out` with each seed. `carry_out` returns what was wrong, with the events of the job. If the machine has
// no free core, all processes that have the state may be silent for longer than the limit.
inline void with_seeds(int usual_runs, const std::function<std::string(unsigned seed)>& carry_out) {
  const char* const runs = std::getenv("ANELLO_ELASTIC_RUNS");
  const char* const first = std::getenv("ANELLO_ELASTIC_SEED");
  const int begin = first ? std::atoi(first) : 1;
  for (int seed = begin; seed < begin + (runs ? std::atoi(runs) : usual_runs); seed++) {
    if (runs) std::printf("seed %d\n", seed), std::fflush(stdout);
    undisturbed(kSilenceLimit / 4, [&] { ASSERT_EQ(carry_out(unsigned(seed)), ""); });
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace anello::launch
