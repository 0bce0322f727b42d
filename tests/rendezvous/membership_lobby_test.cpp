// The lobby of an elastic job: changes that are planned because of it, and processes in the lobby that end or are
// stopped.
#include <gmock/gmock.h>

#include "tests/rendezvous/membership_job.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(Membership, AFullLobbyEndsTheWorldAtOneCommit) {
  Three job;
  const MemberId d = job.come();
  EXPECT_EQ(job.count<AskCommits>(job.a), 0u);
  job.wait(milliseconds(250));
  for (const MemberId id : {job.a, job.b, job.c}) EXPECT_EQ(job.count<AskCommits>(id), 1u);
  job.receive(job.a, Commits{7});
  job.receive(job.b, Commits{8});
  EXPECT_EQ(job.count<Boundary>(job.a), 0u);
  job.receive(job.c, Commits{7});
  for (const MemberId id : {job.a, job.b, job.c}) EXPECT_EQ(job.newest<Boundary>(id)->commit, 9u);
  for (const MemberId id : {job.c, job.a, job.b}) job.enter(id);
  EXPECT_EQ(job.assigned(d).size, 4);
  EXPECT_EQ(job.assigned(d).rank, 3);
}

TEST(Membership, AFullWorldIsNotDisturbedByTheLobby) {
  Three job({.min = 1, .max = 3, .first = 3});
  job.come();
  job.wait(std::chrono::seconds(10));
  EXPECT_EQ(job.count<AskCommits>(job.a), 0u);
}

TEST(Membership, ADeathWhileCommitsAreCountedReleasesTheOthers) {
  Three job;
  job.come();
  job.wait(milliseconds(250));
  job.receive(job.a, Commits{7});
  job.receive(job.b, Commits{8});
  job.end(job.c);
  EXPECT_EQ(job.newest<Boundary>(job.a)->commit, 9u);
}

TEST(Membership, AFailureWhileCommitsAreCountedReleasesTheOthers) {
  Three job;
  job.come();
  job.wait(milliseconds(250));
  job.receive(job.a, Commits{7});
  job.enter(job.b);
  EXPECT_EQ(job.newest<Boundary>(job.a)->commit, 0u);
  EXPECT_EQ(job.newest<Boundary>(job.c)->commit, 0u);
  EXPECT_EQ(job.count<Boundary>(job.b), 0u);
}

// A process that waits alone may end, and another process may come much later. The wait then begins with the later
// process.
TEST(Membership, AWaitForProcessesBeginsWithTheFirstThatIsThere) {
  Job job({.min = 2, .max = 4, .first = 2});
  job.end(job.come());
  job.answer_for(std::chrono::seconds(50));
  const MemberId b = job.come();
  job.answer_for(std::chrono::seconds(20));
  EXPECT_EQ(job.failure(b), "none");
}

TEST(Membership, AStoppedProcessOfTheLobbyDelaysNobody) {
  Three job({.min = 1, .max = 4, .first = 3, .silence = milliseconds(5000)});
  job.answer_for(std::chrono::seconds(1));
  const MemberId d = job.come();
  job.wait(milliseconds(100));
  job.end(job.a);  // before a change is planned for the newcomer, which is stopped from now on
  job.stopped = {d};
  job.answer_for(std::chrono::seconds(3));
  job.enter(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.b).size, 2);
  const std::size_t asked = job.count<AskCommits>(job.b);
  job.complete();
  job.answer_for(std::chrono::seconds(5));
  EXPECT_THAT(job.failure(d), HasSubstr("it was silent for 5 s"));
  EXPECT_EQ(job.count<AskCommits>(job.b), asked);
}

TEST(Membership, TheTimeForWhichTheServerWasStoppedIsNoSilence) {
  Job job({.min = 1, .max = 4, .first = 2, .silence = milliseconds(5000)});
  const MemberId a = job.come();
  job.answer_for(std::chrono::seconds(2));
  job.now += std::chrono::seconds(20);
  job.wait(milliseconds(0));
  EXPECT_EQ(job.failure(a), "none");
  job.stopped = {a};
  job.answer_for(std::chrono::seconds(8));
  EXPECT_THAT(job.failure(a), HasSubstr("it was silent for 5 s"));
}

TEST(Membership, AProcessOfTheLobbyThatAnswersAgainGoesIn) {
  Three job;
  const MemberId d = job.come();
  job.stopped = {d};
  job.end(job.a);
  job.answer_for(std::chrono::seconds(3));
  job.enter(job.b);
  job.enter(job.c);
  job.complete();
  EXPECT_EQ(job.assigned(d).size, 0);
  const std::size_t asked = job.count<AskCommits>(job.b);
  job.stopped.clear();
  job.answer_for(std::chrono::seconds(1));
  EXPECT_EQ(job.count<AskCommits>(job.b), asked + 1);
}

TEST(Membership, AChangeIsNotMadeForAProcessThatHasEnded) {
  Three job;
  job.end(job.come());
  job.answer_for(std::chrono::seconds(1));
  EXPECT_EQ(job.count<AskCommits>(job.a), 0u);
}

TEST(Membership, TheLobbyGoesInAfterALossThatMakesRoom) {
  Three job({.min = 1, .max = 3, .first = 3});
  const MemberId d = job.come();
  job.answer_for(std::chrono::seconds(1));
  EXPECT_EQ(job.count<AskCommits>(job.a), 0u);
  job.end(job.c);  // c has only lost its connection: the world runs
  job.answer_for(std::chrono::seconds(1));
  EXPECT_EQ(job.count<AskCommits>(job.a), 1u);
  EXPECT_EQ(job.count<AskCommits>(d), 0u);
}

TEST(Membership, OfTwoThatDoNotReachEachOtherTheOlderStays) {
  Three job;
  const MemberId d = job.come();
  job.end(job.a);
  job.enter(job.b);
  job.enter(job.c);
  ASSERT_EQ(job.assigned(d).rank, 2);
  job.receive(d, Fail{"no route", 0});
  EXPECT_EQ(job.failure(job.b), "none") << "a newcomer cannot end another process";
  job.receive(job.b, Fail{"no route", 2});
  EXPECT_THAT(job.failure(d), HasSubstr("rank 0 (a, pid "));
  EXPECT_THAT(job.failure(d), HasSubstr("could not reach it: no route"));
  EXPECT_EQ(job.count<Again>(job.b), 1u);
  job.enter(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.c).size, 2);
}

TEST(Membership, AChangeNamesAllThatLeftSinceTheLastCompleteWorld) {
  Three job({.min = 1, .max = 4, .first = 3});
  job.end(job.c);
  job.enter(job.a);
  job.enter(job.b);
  job.end(job.b);  // while the next world starts
  job.enter(job.a);
  EXPECT_THAT(job.assigned(job.a).change, HasSubstr("left: rank 2 ("));
  EXPECT_THAT(job.assigned(job.a).change, HasSubstr(", rank 1 ("));
}

// A rank's message that completes the world was on its way when the start was given up.
TEST(Membership, AWorldThatIsCompleteAfterAllRuns) {
  Job job({.min = 1, .max = 3, .first = 2, .silence = std::chrono::seconds(1000)});
  const MemberId a = job.come(), b = job.come();
  for (const MemberId id : {a, b}) job.receive(id, Contribution{"x"});
  job.receive(a, Leave{});
  job.wait(std::chrono::seconds(61));
  job.receive(b, Leave{});
  EXPECT_EQ(job.membership.phase(), Membership::Phase::steady);
  job.come();
  job.wait(milliseconds(300));
  EXPECT_EQ(job.count<AskCommits>(a), 1u);
}

TEST(Membership, AfterTheEndOfTheTrainingNoneIsNeeded) {
  Three job;
  for (const MemberId id : {job.a, job.b, job.c}) job.receive(id, Done{});
  EXPECT_EQ(job.count<Over>(job.come()), 1u);
}

TEST(Membership, RanksBeginInTheOrderOfTheirPlaces) {
  FourAtPlaces job;
  for (int place = 0; place < 4; place++) EXPECT_EQ(job.assigned(job.at[place]).rank, place);
}

// The other processes of the world have ended, so no rank notices that the last process is stopped.
TEST(Membership, TheLastProcessOfAWorldMayBeStopped) {
  for (const bool announced : {false, true}) {
    FourAtPlaces job({.min = 1, .max = 5, .first = 4, .silence = std::chrono::seconds(5)});
    job.come();
    if (announced) {
      job.wait(milliseconds(250));
      for (const MemberId id : job.at) job.receive(id, Commits{5});
    }
    job.stopped = {job.at[2]};
    for (const int place : {0, 1, 3}) job.end(job.at[place]);
    job.answer_for(milliseconds(4500));
    EXPECT_EQ(job.failure(job.at[2]), "none") << announced;
    job.answer_for(milliseconds(2500));
    EXPECT_THAT(job.failure(job.at[2]), HasSubstr("it was silent for 5 s")) << announced;
  }
}

TEST(Membership, AStoppedProcessDoesNotKeepAFinishedJobAlive) {
  FourAtPlaces job({.min = 1, .max = 5, .first = 4, .silence = std::chrono::seconds(5)});
  for (const int place : {0, 1, 3}) job.receive(job.at[place], Done{});
  job.answer_for(milliseconds(100'000));
  EXPECT_EQ(job.failure(job.at[2]), "none") << "it computes";
  job.stopped = {job.at[2]};
  job.answer_for(milliseconds(6500));
  EXPECT_THAT(job.failure(job.at[2]), HasSubstr("it was silent for 5 s"));
}

}  // namespace
}  // namespace anello::rendezvous
