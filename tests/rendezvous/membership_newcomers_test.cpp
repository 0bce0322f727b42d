// Processes that a launcher has started together: all of them go into the world by one change, and delay nothing else.
#include <gmock/gmock.h>

#include "tests/rendezvous/membership_job.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;

// A running world of three, with room for three more.
struct ThreeOfSix : Three {
  ThreeOfSix() : Three({.min = 1, .max = 6, .first = 3}) {}
  std::size_t changes() const { return count<AskCommits>(a); }
};

TEST(Newcomers, ThatWereStartedTogetherGoInByOneChange) {
  ThreeOfSix job;
  job.expect(2);
  const MemberId d = job.come();
  job.answer_for(milliseconds(10'000));
  EXPECT_EQ(job.changes(), 0u);
  const MemberId e = job.come();
  job.expect(0);
  job.answer_for(milliseconds(500));
  EXPECT_EQ(job.changes(), 1u);
  for (const MemberId id : {job.a, job.b, job.c}) job.receive(id, Commits{5});
  for (const MemberId id : {job.a, job.b, job.c}) job.enter(id);
  EXPECT_EQ(job.assigned(d).size, 5);
  EXPECT_EQ(job.assigned(e).generation, 2u);
}

TEST(Newcomers, DoNotWaitForOneThatEndsBeforeItHasJoined) {
  ThreeOfSix job;
  job.expect(2);
  job.come();
  job.answer_for(milliseconds(3'000));
  job.expect(0);
  job.answer_for(milliseconds(500));
  EXPECT_EQ(job.changes(), 1u);
}

TEST(Newcomers, WaitForOthersForALimitedTime) {
  ThreeOfSix job;
  job.expect(2);
  job.come();
  job.answer_for(milliseconds(20'000));
  job.come();
  job.answer_for(milliseconds(9'500));
  EXPECT_EQ(job.changes(), 0u);
  job.answer_for(milliseconds(1'000));
  EXPECT_EQ(job.changes(), 1u);
}

TEST(Newcomers, DoNotDelayTheWorldAfterALoss) {
  ThreeOfSix job;
  job.expect(2);
  const MemberId d = job.come();
  job.answer_for(milliseconds(1'000));
  job.end(job.c);
  for (const MemberId id : {job.a, job.b}) job.enter(id);
  EXPECT_EQ(job.assigned(d).size, 3);
  EXPECT_EQ(job.assigned(d).generation, 2u);
}

TEST(Newcomers, DoNotHideThatTheStateIsLost) {
  ThreeOfSix job;
  EXPECT_FALSE(job.membership.status().lost);
  for (const MemberId id : {job.a, job.b, job.c}) job.end(id);
  job.come();
  EXPECT_TRUE(job.membership.status().lost);
  EXPECT_FALSE(job.membership.status().begun);
}

TEST(Newcomers, DoNotDelayAProcessThatIsToLeave) {
  ThreeOfSix job;
  job.expect(2);
  job.come();
  job.answer_for(milliseconds(1'000));
  job.receive(job.b, Retire{});
  job.answer_for(milliseconds(500));
  EXPECT_EQ(job.changes(), 1u);
}

TEST(Newcomers, DoNotWaitForThoseThatWouldHaveNoRoom) {
  ThreeOfSix job;
  job.expect(4);
  for (int i = 0; i < 3; i++) job.come();
  job.answer_for(milliseconds(500));
  EXPECT_EQ(job.changes(), 1u);
}

TEST(Newcomers, WaitForOneThatHasJoinedAndEntersLater) {
  ThreeOfSix job;
  constexpr MemberId kLater = 99;
  job.pass(job.membership.joined(kLater, on("a"), job.now));
  job.come();
  job.got[kLater];
  job.answer_for(milliseconds(3'000));
  EXPECT_EQ(job.changes(), 0u);
  job.end(kLater);
  job.answer_for(milliseconds(500));
  EXPECT_EQ(job.changes(), 1u);
}

TEST(Newcomers, DoNotWaitForOneThatHasJoinedAndIsStopped) {
  ThreeOfSix job;
  constexpr MemberId kStopped = 99;
  job.pass(job.membership.joined(kStopped, on("a"), job.now));
  job.stopped = {kStopped};
  job.come();
  job.answer_for(milliseconds(4'500));
  EXPECT_EQ(job.changes(), 1u);
}

}  // namespace
}  // namespace anello::rendezvous
