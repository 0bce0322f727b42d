// Tests when the progress thread gives up its core, with queues that are stuck.
#include "ring/group/progress_thread.hpp"

#include <gtest/gtest.h>

#include <future>

#include "tests/support/fake_core.hpp"

namespace anello::group {
namespace {

using anello::testing::FakeCore;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Has an operation that never moves, and allows the thread to sleep.
class Stuck : public Movable {
 public:
  Progress progress() override {
    rounds++;
    return Progress::stuck;
  }
  bool prepare_sleep(link::Waiter&, milliseconds&) override {
    if (!slept_) asleep.set_value();
    return slept_ = true;
  }
  void slept(trace::Ticks) override {}

  int rounds = 0;
  std::promise<void> asleep;

 private:
  bool slept_ = false;
};

// The rounds of a thread with two stuck queues, before it sleeps for the first time.
int rounds_before_sleep(int yields, std::chrono::nanoseconds yield_takes) {
  ProgressThread thread({microseconds(0), yields}, FakeCore(yield_takes));
  const auto one = std::make_shared<Stuck>(), other = std::make_shared<Stuck>();
  thread.offer(one);
  thread.offer(other);
  thread.start();
  other->asleep.get_future().wait();
  thread.stop();
  EXPECT_EQ(one->rounds, other->rounds);
  return one->rounds;
}

TEST(ProgressThread, YieldsOnceARoundHoweverManyQueuesAreStuck) {
  EXPECT_EQ(rounds_before_sleep(5, microseconds(20)), 6);
  EXPECT_EQ(FakeCore::yields, 5);
}

TEST(ProgressThread, SleepsAfterAYieldThatTookSeveralSlices) {
  EXPECT_EQ(rounds_before_sleep(100, milliseconds(8)), 2);
  EXPECT_EQ(FakeCore::yields, 1);
}

// One yield took a whole time slice, because another thread of the same rank ran. If the progress thread slept, that
// thread would have to wake it.
TEST(ProgressThread, YieldsOnAfterOneThatTookASlice) {
  EXPECT_EQ(rounds_before_sleep(100, milliseconds(4)), 101);
}

}  // namespace
}  // namespace anello::group
