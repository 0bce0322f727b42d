#include "ring/trace/ticks.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

namespace anello::trace {
namespace {

std::int64_t steady_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

TEST(Ticks, AreTheSteadyClockSTime) {
  const TickClock clock;
  constexpr int kMoments = 5;
  std::vector<std::pair<Ticks, std::int64_t>> moments;
  for (int k = 0; k < kMoments; k++) {
    const TickClock::Moment now = TickClock::now();
    moments.emplace_back(now.ticks, now.steady_ns);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const TickClock::Scale scale = clock.scale();
  for (const auto& [ticks, steady] : moments)
    EXPECT_LT(std::abs(scale.steady_ns(ticks) - steady), 20'000) << "of " << steady - moments[0].second;
}

TEST(Ticks, NeverGoBackOnOneThread) {
  Ticks before = ticks();
  for (int k = 0; k < 10'000; k++) {
    const Ticks now = ticks();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Ticks, LengthsAreNanoseconds) {
  const TickClock::Scale twice({1000, 5000}, {2000, 7000});
  EXPECT_EQ(twice.steady_ns(1000), 5000);
  EXPECT_EQ(twice.steady_ns(1500), 6000);
  EXPECT_EQ(twice.steady_ns(900), 4800) << "before it was first read";
  EXPECT_EQ(twice.nanoseconds(10), 20);
  const TickClock::Scale nothing({1000, 5000}, {1000, 5000});
  EXPECT_EQ(nothing.steady_ns(1003), 5003) << "of no time no scale can be made";
}

TEST(Ticks, AClockTakesItsTimeFromTheSystem) {
  const std::int64_t before = steady_ns();
  const TickClock::Moment now = TickClock::now();
  EXPECT_LE(before, now.steady_ns);
  EXPECT_LE(now.steady_ns, steady_ns());
}

}  // namespace
}  // namespace anello::trace
