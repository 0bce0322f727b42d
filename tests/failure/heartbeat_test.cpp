#include "ring/failure/heartbeat.hpp"

#include <gmock/gmock.h>

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr milliseconds kLimit{800}, kInterval{100}, kStart{5000};

// Calls `before(now)` and then tick(), whenever tick() is due, until the end. Returns which peers became silent, and
// when heartbeats were sent.
struct Result {
  std::vector<int> silent;
  std::vector<milliseconds> heartbeats;
};
template <class Before>
Result run(HeartbeatMonitor& monitor, milliseconds until, Before before) {
  Result all;
  while (monitor.due() && *monitor.due() <= until) {
    const milliseconds now = *monitor.due();
    before(now);
    const HeartbeatMonitor::Due due = monitor.tick(now);
    if (due.heartbeat) all.heartbeats.push_back(now);
    all.silent.insert(all.silent.end(), due.silent.begin(), due.silent.end());
  }
  return all;
}
void nothing(milliseconds) {}

TEST(HeartbeatMonitor, SendsEightHeartbeatsWithinTheLimitAndNamesASilentPeer) {
  HeartbeatMonitor monitor(kLimit);
  monitor.add(3, kStart);
  const Result all = run(monitor, kStart + kLimit - milliseconds(1), nothing);
  EXPECT_THAT(all.silent, IsEmpty());
  ASSERT_EQ(all.heartbeats.size(), 8u);
  EXPECT_EQ(all.heartbeats[0], kStart);
  EXPECT_EQ(all.heartbeats[1], kStart + kInterval);
  EXPECT_THAT(run(monitor, kStart + kLimit, nothing).silent, ElementsAre(3));
  EXPECT_FALSE(monitor.due()) << "nobody is left, and nobody is named twice";
}

TEST(HeartbeatMonitor, APeerThatSendsIsNotSilent) {
  HeartbeatMonitor monitor(kLimit);
  monitor.add(3, kStart);
  monitor.add(5, kStart);
  const Result all = run(monitor, kStart + 10 * kLimit, [&](milliseconds now) { monitor.received(5, now); });
  EXPECT_THAT(all.silent, ElementsAre(3));
}

TEST(HeartbeatMonitor, ARemovedPeerIsNotSilent) {
  HeartbeatMonitor monitor(kLimit);
  monitor.add(3, kStart);
  monitor.remove(3);
  monitor.received(3, kStart);
  EXPECT_FALSE(monitor.due());
}

// When a stopped process continues, it has received nothing for a long time, and the messages that the peers sent are
// still unread.
TEST(HeartbeatMonitor, AProcessThatWasStoppedItselfNamesNobodyAtOnce) {
  HeartbeatMonitor monitor(kLimit);
  monitor.add(3, kStart);
  run(monitor, kStart + kInterval, nothing);
  const milliseconds late = kStart + 100 * kLimit;
  EXPECT_THAT(monitor.tick(late).silent, IsEmpty());
  EXPECT_EQ(run(monitor, late + kLimit - milliseconds(1), nothing).silent.size(), 0u);
  EXPECT_THAT(run(monitor, late + kLimit, nothing).silent, ElementsAre(3)) << "but then";
}

TEST(HeartbeatMonitor, WithoutALimitItSendsHeartbeatsAndNobodyIsSilent) {
  HeartbeatMonitor monitor(milliseconds(0));
  monitor.add(3, kStart);
  const Result all = run(monitor, kStart + milliseconds(100'000), nothing);
  EXPECT_THAT(all.silent, IsEmpty());
  EXPECT_EQ(all.heartbeats.size(), 101u) << "one a second";
}

}  // namespace
}  // namespace anello::failure
