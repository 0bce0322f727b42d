#include "ring/link/waiter.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/loopback.hpp"

namespace anello::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long the waiter slept of ten seconds.
milliseconds slept(Waiter& waiter, milliseconds limit = milliseconds(10000)) {
  const auto began = steady_clock::now();
  waiter.sleep(limit);
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
}

using std::chrono::microseconds;

TEST(Waiter, YieldsSoOftenAndThenSleeps) {
  Bell bell;
  Waiter waiter({microseconds(0), 5}, bell);
  for (int round = 0; round < 5; round++) EXPECT_FALSE(waiter.pause()) << round;
  EXPECT_TRUE(waiter.pause());
  EXPECT_TRUE(waiter.pause());
}

// The first wait of a waiter always spins. Later ones do so if no yield showed that another process wants the core,
// which depends on the machine; without yields they always do.
TEST(Waiter, SpinsForSoLongAndThenYields) {
  Bell bell;
  const auto expect_spinning = [](Waiter& waiter) {
    const auto began = steady_clock::now();
    long rounds = 0;
    while (!waiter.pause()) rounds++;
    EXPECT_GE(steady_clock::now() - began, milliseconds(20));
    EXPECT_GT(rounds, 2);
    waiter.moved();
  };
  Waiter yielding({milliseconds(20), 2}, bell);
  expect_spinning(yielding);
  Waiter spinning({milliseconds(20), 0}, bell);
  for (int wait = 0; wait < 2; wait++) expect_spinning(spinning);
}

TEST(Waiter, BeginsAnewOnceSomethingMovedOrItHasSlept) {
  Bell bell;
  Waiter waiter({microseconds(0), 2}, bell);
  for (int k = 0; k < 2; k++) EXPECT_FALSE(waiter.pause());
  waiter.moved();
  for (int k = 0; k < 2; k++) EXPECT_FALSE(waiter.pause());
  EXPECT_TRUE(waiter.pause());
  waiter.sleep(milliseconds(1));
  EXPECT_FALSE(waiter.pause());
}

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

// Waits until one was as is wanted; false if that takes too long.
bool comes_to(Waiter& waiter, const std::function<bool(long rounds)>& wanted) {
  for (const auto end = steady_clock::now() + std::chrono::seconds(20); steady_clock::now() < end;) {
    waiter.moved();
    long rounds = 0;
    while (!waiter.pause()) rounds++;
    if (wanted(rounds)) return true;
  }
  return false;
}

TEST(Waiter, SpinsOnlyWhileNobodyElseWantsTheCore) {
  constexpr int kYields = 10;
  const auto without_spinning = [](long rounds) { return rounds == kYields; };
  const auto with_spinning = [](long rounds) { return rounds > kYields; };
  const int core = sched_getcpu();
  std::thread([&] {
    stay_on(core);
    Bell bell;
    Waiter waiter({milliseconds(1), kYields}, bell);
    std::atomic<bool> done{false};
    std::thread busy([&] {
      while (!done) continue;
    });
    EXPECT_TRUE(comes_to(waiter, without_spinning));
    done = true;
    busy.join();
    EXPECT_TRUE(comes_to(waiter, with_spinning));
  }).join();
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
