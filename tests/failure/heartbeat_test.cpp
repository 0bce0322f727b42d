#include "ring/failure/heartbeat.hpp"

#include <gmock/gmock.h>

namespace anello {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr milliseconds kLimit{800}, kInterval{100}, kStart{5000};

// Ticks as often as is due until then; who became silent, and when the beats were.
struct Story {
  std::vector<int> silent;
  std::vector<milliseconds> beats;
};
template <class Heard>
Story told(HeartbeatMonitor& pulse, milliseconds until, Heard heard) {
  Story all;
  while (pulse.due() && *pulse.due() <= until) {
    const milliseconds now = *pulse.due();
    heard(now);
    const HeartbeatMonitor::Due due = pulse.tick(now);
    if (due.beat) all.beats.push_back(now);
    all.silent.insert(all.silent.end(), due.silent.begin(), due.silent.end());
  }
  return all;
}
void nothing(milliseconds) {}

TEST(HeartbeatMonitor, beats_eight_times_within_the_limit_and_names_who_is_not_heard_in_it) {
  HeartbeatMonitor pulse(kLimit);
  pulse.joined(3, kStart);
  const Story all = told(pulse, kStart + kLimit - milliseconds(1), nothing);
  EXPECT_THAT(all.silent, IsEmpty());
  ASSERT_EQ(all.beats.size(), 8u);
  EXPECT_EQ(all.beats[0], kStart);
  EXPECT_EQ(all.beats[1], kStart + kInterval);
  EXPECT_THAT(told(pulse, kStart + kLimit, nothing).silent, ElementsAre(3));
  EXPECT_FALSE(pulse.due()) << "nobody is left, and nobody is named twice";
}

TEST(HeartbeatMonitor, who_is_heard_is_not_silent) {
  HeartbeatMonitor pulse(kLimit);
  pulse.joined(3, kStart);
  pulse.joined(5, kStart);
  const Story all = told(pulse, kStart + 10 * kLimit, [&](milliseconds now) { pulse.heard(5, now); });
  EXPECT_THAT(all.silent, ElementsAre(3));
}

TEST(HeartbeatMonitor, who_has_gone_is_not_silent) {
  HeartbeatMonitor pulse(kLimit);
  pulse.joined(3, kStart);
  pulse.left(3);
  pulse.heard(3, kStart);
  EXPECT_FALSE(pulse.due());
}

// A stopped process that goes on finds that nobody was heard; what they said is still to be read.
TEST(HeartbeatMonitor, who_was_stopped_itself_accuses_nobody_at_once) {
  HeartbeatMonitor pulse(kLimit);
  pulse.joined(3, kStart);
  told(pulse, kStart + kInterval, nothing);
  const milliseconds late = kStart + 100 * kLimit;
  EXPECT_THAT(pulse.tick(late).silent, IsEmpty());
  EXPECT_EQ(told(pulse, late + kLimit - milliseconds(1), nothing).silent.size(), 0u);
  EXPECT_THAT(told(pulse, late + kLimit, nothing).silent, ElementsAre(3)) << "but then";
}

TEST(HeartbeatMonitor, without_a_limit_it_beats_and_nobody_is_silent) {
  HeartbeatMonitor pulse(milliseconds(0));
  pulse.joined(3, kStart);
  const Story all = told(pulse, kStart + milliseconds(100'000), nothing);
  EXPECT_THAT(all.silent, IsEmpty());
  EXPECT_EQ(all.beats.size(), 101u) << "one a second";
}

}  // namespace
}  // namespace anello
