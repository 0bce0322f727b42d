// Simulated worlds whose ranks must agree on one verdict, or have no verdict.
#pragma once
#include <gtest/gtest.h>

#include "ring/base/text.hpp"
#include "tests/support/assembly.hpp"

namespace anello {

// Returns the verdict of all living ranks. Fails the test if a rank has no verdict or a different verdict.
inline failure::Verdict common_verdict(Assembly& assembly) {
  const std::vector<int> ranks = assembly.alive();
  failure::Verdict first;
  for (const int rank : ranks) {
    const auto& verdict = assembly[rank].verdict();
    if (!verdict) {
      ADD_FAILURE() << "rank " << rank << " has no verdict";
      continue;
    }
    if (first.message.empty()) first = *verdict;
    EXPECT_EQ(verdict->code, first.code) << "rank " << rank << ": " << verdict->message;
    EXPECT_EQ(verdict->culprit, first.culprit) << "rank " << rank << ": " << verdict->message;
    EXPECT_EQ(verdict->message, first.message) << "rank " << rank;
  }
  return first;
}

inline void expect_no_verdict(Assembly& assembly) {
  for (const int rank : assembly.alive()) EXPECT_FALSE(assembly[rank].verdict()) << "rank " << rank;
}

// Runs body(assembly) with many seeds, in worlds of 2 to 9 and of 16 ranks, but of `min_size` ranks at least.
template <class Body>
void in_many_worlds(int min_size, Body body) {
  for (const std::uint64_t seed : seeds(40))
    for (const int size : {2, 3, 4, 5, 6, 7, 8, 9, 16}) {
      if (size < min_size) continue;
      SCOPED_TRACE(text(replay(seed), ", ", size, " ranks"));
      Assembly assembly(size, seed * 100 + std::uint64_t(size));
      body(assembly);
      if (testing::Test::HasFailure()) return;
    }
}

inline int any_rank(Assembly& assembly) {
  return int(assembly.random().below(std::uint64_t(assembly.size())));
}

// Draws a living rank.
inline int any_of(Assembly& assembly) {
  const std::vector<int> ranks = assembly.alive();
  return assembly.random().one_of(ranks);
}

}  // namespace anello
