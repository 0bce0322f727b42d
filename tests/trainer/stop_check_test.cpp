// Stopping at the same step on all ranks, without an operation in every step.
#include "trainer/stop_check.hpp"

#include <gtest/gtest.h>

#include <anello/testing.hpp>
#include <array>
#include <atomic>

namespace anello::trainer {
namespace {

TEST(StopCheck, StopsAllRanksAfterTheSameStepAndSeldomCompares) {
  constexpr int kAskedAfter = 20000;
  std::array<int, 3> stopped_after{};
  run_world(3, [&](World& world) {
    std::atomic<bool> requested = false;
    StopCheck check(world, &requested);
    int step = 0;
    do requested = ++step >= kAskedAfter && world.rank() == 1;
    while (!check.after_step());
    stopped_after[std::size_t(world.rank())] = step;
    EXPECT_LT(world.counters().operations, kAskedAfter / 10U);
  });
  EXPECT_GE(stopped_after[1], kAskedAfter);
  EXPECT_EQ(stopped_after[0], stopped_after[1]);
  EXPECT_EQ(stopped_after[2], stopped_after[1]);
}

TEST(StopCheck, ComparesNothingIfItCannotBeAsked) {
  run_world(2, [&](World& world) {
    StopCheck check(world, nullptr);
    for (int step = 0; step < 100; step++) EXPECT_FALSE(check.after_step());
    EXPECT_EQ(world.counters().operations, 0U);
  });
}

}  // namespace
}  // namespace anello::trainer
