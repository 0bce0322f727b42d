#include "ring/trace/alignment.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/random.hpp"

namespace anello::trace {
namespace {

TEST(ClockOffset, IsOfTheFastestAnswer) {
  const std::array<ClockSample, 3> samples{{{1000, 5300, 1900}, {2000, 6010, 2020}, {3000, 7950, 4000}}};
  const ClockOffset offset = estimate(samples);
  EXPECT_EQ(offset.at_ns, 6010);
  EXPECT_EQ(offset.behind_ns, -4000);
  EXPECT_EQ(offset.within_ns, 10);
}

// Two clocks that differ by `apart`, and a network with different delays each way.
TEST(ClockOffset, IsNoFurtherOffThanItSays) {
  Random random(1);
  for (int round = 0; round < 2000; round++) {
    const auto apart = std::int64_t(random.below(2'000'000'000)) - 1'000'000'000;
    std::vector<ClockSample> samples;
    std::int64_t now = 0;
    for (std::uint64_t k = 1 + random.below(20); k > 0; k--) {
      const std::int64_t there = now + 1 + std::int64_t(random.below(100'000));
      const std::int64_t back = there + 1 + std::int64_t(random.below(100'000));
      samples.push_back({now, there - apart, back});
      now = back;
    }
    const ClockOffset offset = estimate(samples);
    ASSERT_LE(std::abs(offset.behind_ns - apart), offset.within_ns) << "round " << round;
  }
}

TEST(Alignment, OfOneMeasurementShifts) {
  const ClockOffset only{500, 70, 1};
  const Alignment alignment{only, only};
  EXPECT_EQ(alignment.translate(500), 570);
  EXPECT_EQ(alignment.translate(0), 70);
}

TEST(Alignment, OfTwoFollowsClocksThatDriftApart) {
  const Alignment alignment{{1'000'000, 100, 1}, {2'000'000, 300, 1}};
  EXPECT_EQ(alignment.translate(1'000'000), 1'000'100);
  EXPECT_EQ(alignment.translate(1'500'000), 1'500'200);
  EXPECT_EQ(alignment.translate(2'000'000), 2'000'300);
}

}  // namespace
}  // namespace anello::trace
