#include "ring/link/waiter.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/fake_core.hpp"
#include "tests/support/loopback.hpp"

namespace anello::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Returns how long the waiter sleeps in a wait whose limit is `limit`.
milliseconds slept(Waiter& waiter, milliseconds limit = milliseconds(10000)) {
  const auto began = steady_clock::now();
  waiter.sleep(limit);
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
}

using anello::testing::FakeCore;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

// Returns the number of rounds of a wait without an event, before the waiter would sleep.
long rounds_of_a_wait(Waiter& waiter) {
  waiter.moved();
  long rounds = 0;
  while (!waiter.pause()) rounds++;
  return rounds;
}

TEST(Waiter, YieldsSoOftenAndThenSleeps) {
  Bell bell;
  Waiter waiter({microseconds(0), 5}, bell, FakeCore(microseconds(20)));
  for (int round = 0; round < 5; round++) EXPECT_FALSE(waiter.pause()) << round;
  EXPECT_TRUE(waiter.pause());
  EXPECT_TRUE(waiter.pause());
  EXPECT_EQ(FakeCore::yields, 5);
}

TEST(Waiter, SpinsForSoLongAndThenYields) {
  Bell bell;
  const FakeCore core(nanoseconds(300));
  for (const int yields : {2, 0}) {
    Waiter waiter({milliseconds(20), yields}, bell, core);
    for (int wait = 0; wait < 2; wait++) {
      const auto began = FakeCore::time;
      EXPECT_GT(rounds_of_a_wait(waiter), 2);
      EXPECT_GE(FakeCore::time - began, milliseconds(20));
      EXPECT_LT(FakeCore::time - began, milliseconds(21));
    }
  }
}

TEST(Waiter, BeginsAnewOnceSomethingMovedOrItHasSlept) {
  Bell bell;
  Waiter waiter({microseconds(0), 2}, bell, FakeCore(microseconds(20)));
  for (int k = 0; k < 2; k++) EXPECT_FALSE(waiter.pause());
  waiter.moved();
  for (int k = 0; k < 2; k++) EXPECT_FALSE(waiter.pause());
  EXPECT_TRUE(waiter.pause());
  waiter.sleep(milliseconds(1));
  EXPECT_FALSE(waiter.pause());
}

TEST(Waiter, SpinsOnlyWhileNobodyElseWantsTheCore) {
  constexpr int kYields = 10;
  Bell bell;
  Waiter waiter({milliseconds(1), kYields}, bell, FakeCore(microseconds(20)));
  EXPECT_GT(rounds_of_a_wait(waiter), kYields) << "it does not know yet";
  EXPECT_EQ(rounds_of_a_wait(waiter), kYields);
  FakeCore::yield_takes = nanoseconds(300);
  EXPECT_GT(rounds_of_a_wait(waiter), kYields) << "it spins after the first yield";
}

TEST(Waiter, SleepsAfterAYieldThatTookASlice) {
  Bell bell;
  Waiter waiter({microseconds(0), 100}, bell, FakeCore(milliseconds(4)));
  EXPECT_EQ(rounds_of_a_wait(waiter), 1) << "it looks once more, and sleeps";
  EXPECT_EQ(FakeCore::yields, 1);
}

// The load is like the load of several ranks of a job on one core.
TEST(Waiter, YieldsToRanksThatTakeShortTurnsAsOftenAsEver) {
  Bell bell;
  Waiter waiter({microseconds(0), 100}, bell, FakeCore(microseconds(900)));
  for (int wait = 0; wait < 1000; wait++) ASSERT_EQ(rounds_of_a_wait(waiter), 100) << wait;
}

TEST(Waiter, LosesLittleTimeToThreadsThatCompute) {
  Bell bell;
  Waiter waiter({milliseconds(1), 100}, bell, FakeCore(milliseconds(30)));
  constexpr int kWaits = 60'000;
  rounds_of_a_wait(waiter);  // spins first
  for (int wait = 1; wait < kWaits; wait++) {
    FakeCore::time += milliseconds(1);  // asleep
    const int yields = FakeCore::yields;
    const auto began = FakeCore::time;
    rounds_of_a_wait(waiter);
    if (FakeCore::yields > yields) continue;
    ASSERT_LE(FakeCore::time - began, microseconds(30)) << "it does not spin for long";
  }
  EXPECT_GE(FakeCore::yields, 5) << "it looks from time to time whether the threads have ended";
  EXPECT_LE(FakeCore::yields * milliseconds(30), milliseconds(kWaits) / 100);
}

// A waiter whose thread has lost so much time to computing threads that it no longer yields.
Waiter on_a_busy_core(Bell& bell) {
  Waiter waiter({milliseconds(1), 100}, bell, FakeCore(milliseconds(30)));
  for (int wait = 0; wait < 2; wait++) rounds_of_a_wait(waiter);
  return waiter;
}

TEST(Waiter, SpinsSeldomWhileThatIsInVain) {
  Bell bell;
  Waiter waiter = on_a_busy_core(bell);
  std::vector<int> spinning;
  for (int wait = 0; wait < 60; wait++)
    if (rounds_of_a_wait(waiter) > 0) spinning.push_back(wait);
  EXPECT_EQ(spinning, (std::vector{0, 1, 3, 7, 15, 31, 47}));
}

TEST(Waiter, SpinsInEachWaitAgainOnceThatWasWorthIt) {
  Bell bell;
  Waiter waiter = on_a_busy_core(bell);
  for (int wait = 0; wait < 100; wait++) rounds_of_a_wait(waiter);
  do waiter.moved();
  while (waiter.pause());
  waiter.moved();  // while it spins
  for (int wait = 0; wait < 100; wait++) {
    ASSERT_GT(rounds_of_a_wait(waiter), 0) << wait;
    waiter.moved();
    ASSERT_FALSE(waiter.pause()) << wait << ": one spin in vain is no reason";
    waiter.moved();
  }
}

TEST(Waiter, YieldsAgainSoonAfterThreadsThatComputedHaveEnded) {
  Bell bell;
  Waiter waiter({microseconds(0), 100}, bell, FakeCore(milliseconds(30)));
  for (int wait = 0; wait < 1000; wait++) {
    rounds_of_a_wait(waiter);
    FakeCore::time += milliseconds(1);
  }
  FakeCore::yield_takes = microseconds(20);
  FakeCore::time += std::chrono::seconds(10);
  for (int wait = 0; wait < 1000; wait++) ASSERT_EQ(rounds_of_a_wait(waiter), 100) << wait;
}

// A wait that the waiter ends as soon as it has yielded once: a message has arrived.
void wait_for_a_message(Waiter& waiter) {
  ASSERT_FALSE(waiter.pause());
  waiter.moved();
}

TEST(Waiter, LongYieldsAfterWhichNothingHasArrivedCostNothing) {
  Bell bell;
  Waiter waiter({microseconds(0), 100}, bell, FakeCore(milliseconds(20)));
  for (int wait = 0; wait < 1000; wait++) {
    ASSERT_FALSE(waiter.pause()) << wait;
    ASSERT_TRUE(waiter.pause()) << wait << ": it sleeps after a long yield";
    waiter.sleep(milliseconds(0));
  }
  EXPECT_EQ(FakeCore::yields, 1000);
}

// Other processes take 4 ms of each core after each 4 ms of ranks that wait for messages of each other.
TEST(Waiter, GoesOnYieldingWhileThatSavesMoreSleepsThanItCosts) {
  Bell bell;
  Waiter waiter({microseconds(0), 100}, bell, FakeCore(microseconds(10)));
  for (int slice = 0; slice < 1000; slice++) {
    FakeCore::yield_takes = microseconds(10);
    for (int message = 0; message < 400; message++) wait_for_a_message(waiter);
    FakeCore::yield_takes = milliseconds(4);
    wait_for_a_message(waiter);
  }
  EXPECT_EQ(FakeCore::yields, 401 * 1000);
}

TEST(Waiter, SleepsIfYieldsSaveFewerSleepsThanTheyCost) {
  Bell bell;
  Waiter waiter({microseconds(0), 100}, bell, FakeCore(microseconds(10)));
  constexpr int kMessages = 40'000;
  for (int message = 0; message < kMessages; message++) {
    FakeCore::yield_takes = message % 40 == 0 ? nanoseconds(milliseconds(4)) : nanoseconds(microseconds(10));
    if (waiter.pause())
      waiter.sleep(milliseconds(0));
    else
      waiter.moved();
  }
  EXPECT_LT(FakeCore::yields, kMessages / 2);
}

// Returns how many of 1000 yields are made, one every `period`, if a message is found after each.
int yields_made(YieldBudget& budget, milliseconds period) {
  const int before = FakeCore::yields;
  for (int k = 0; k < 1000; k++) {
    FakeCore::time += period;
    if (budget.allows_a_yield()) budget.found_after(budget.yield());
  }
  return FakeCore::yields - before;
}

TEST(YieldBudget, AllowsAFewLongYieldsASecond) {
  const FakeCore core(milliseconds(2));
  YieldBudget budget(milliseconds(1), core);
  EXPECT_EQ(yields_made(budget, milliseconds(500)), 1000);
}

TEST(YieldBudget, DoesNotSaveMoreThanABurst) {
  const FakeCore core(milliseconds(4));
  YieldBudget budget(milliseconds(1), core);
  FakeCore::time += std::chrono::hours(1);
  EXPECT_EQ(yields_made(budget, milliseconds(0)), 13);
}

// Threads compute in such yields too, so that they have not saved a sleep.
TEST(YieldBudget, YieldsInWhichOthersComputeSaveNothing) {
  const FakeCore core(milliseconds(30));
  YieldBudget budget(milliseconds(5), core);
  budget.found_after(budget.yield());
  FakeCore::yield_takes = microseconds(200);
  for (int k = 0; k < 2000; k++) budget.found_after(budget.yield());
  FakeCore::yield_takes = milliseconds(30);
  EXPECT_EQ(yields_made(budget, milliseconds(0)), 1);
}

TEST(Waiter, SleepsNoLongerThanTheLimit) {
  Bell bell;
  Waiter waiter({}, bell);
  const milliseconds time = slept(waiter, milliseconds(30));
  EXPECT_GE(time, milliseconds(29));
  EXPECT_LT(time, milliseconds(5000));
}

TEST(Waiter, ARingBeforeTheSleepIsNotMissedAndCountsOnce) {
  Bell bell;
  Waiter waiter({}, bell);
  for (int k = 0; k < 3; k++) bell.ring();
  EXPECT_LT(slept(waiter), milliseconds(5000));
  EXPECT_GE(slept(waiter, milliseconds(30)), milliseconds(29)) << "it rang only before";
  bell.ring();
  bell.hush();
  EXPECT_GE(slept(waiter, milliseconds(30)), milliseconds(29)) << "it was hushed";
}

TEST(Waiter, ARingFromAnotherThreadWakesIt) {
  Bell bell;
  Waiter waiter({}, bell);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    bell.ring();
  });
  EXPECT_LT(slept(waiter), milliseconds(5000));
  other.join();
}

TEST(Waiter, WakesForWhatItWantsAndForgetsItAfterwards) {
  Bell bell;
  Loopback pair;
  Waiter waiter({}, bell);
  waiter.want(pair.a.native_handle(), POLLOUT);
  EXPECT_LT(slept(waiter), milliseconds(5000));
  waiter.want(pair.a.native_handle(), POLLIN);
  EXPECT_GE(slept(waiter, milliseconds(30)), milliseconds(29)) << "nothing to read, and writing is not wanted now";
  pair.b.send(asio::buffer("x", 1));
  waiter.want(pair.a.native_handle(), POLLIN);
  EXPECT_LT(slept(waiter), milliseconds(5000));
  pair.b.close();
  waiter.want(pair.a.native_handle(), POLLIN);
  EXPECT_LT(slept(waiter), milliseconds(5000)) << "the end is news too";
}

TEST(WaitPolicy, SpinsOnlyWhereEveryRankHasACore) {
  EXPECT_GT(WaitPolicy::of(-1, -1, false).spin.count(), 0);
  EXPECT_EQ(WaitPolicy::of(-1, -1, true).spin.count(), 0);
  EXPECT_GT(WaitPolicy::of(-1, -1, true).yields, 0);
}

TEST(WaitPolicy, SettingsWin) {
  const WaitPolicy patience = WaitPolicy::of(7, 0, true);
  EXPECT_EQ(patience.spin, microseconds(7));
  EXPECT_EQ(patience.yields, 0);
}

}  // namespace
}  // namespace anello::link
