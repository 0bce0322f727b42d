// Processes of an elastic job that are asked to leave: when they leave, and which processes keep the state.
#include <gmock/gmock.h>

#include "tests/rendezvous/membership_job.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(Membership, AProcessThatIsAskedToLeaveDoesSoAtACommitAndIsNotAdmittedAgain) {
  FourAtPlaces job;
  job.retire(1);
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  for (const MemberId id : job.at) EXPECT_EQ(job.newest<Boundary>(id)->commit, 6u);
  for (const int place : {1, 0, 3}) job.enter(job.at[place]);
  EXPECT_EQ(job.count<Over>(job.at[1]), 1u) << "at once, not when the others have come";
  EXPECT_EQ(job.assigned(job.at[0]).generation, 1u);
  job.enter(job.at[2]);
  EXPECT_EQ(job.assigned(job.at[0]).size, 3);
  EXPECT_THAT(job.assigned(job.at[0]).change, HasSubstr("it was asked to leave"));
}

TEST(Membership, AProcessMayAskToLeaveItself) {
  FourAtPlaces job;
  job.receive(job.at[1], Retire{});
  EXPECT_TRUE(job.membership.status().processes[std::size_t(job.at[1] - job.at[3])].retires);
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  for (const MemberId id : job.at) job.enter(id);
  EXPECT_EQ(job.count<Over>(job.at[1]), 1u);
  EXPECT_EQ(job.assigned(job.at[0]).size, 3);
}

TEST(Membership, TheStateIsNotLostSilentlyIfAllProcessesAreAskedToLeave) {
  FourAtPlaces job;
  for (const int place : {0, 1, 2, 3}) job.receive(job.at[place], Retire{});
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  for (const MemberId id : job.at) job.enter(id);
  for (const MemberId id : job.at) {
    EXPECT_EQ(job.count<Over>(id), 0u);
    EXPECT_THAT(job.failure(id), HasSubstr("were asked to leave: the state of the job is lost with them; start"));
  }
}

// `anello resize` keeps the lowest places. Their processes may just have started, and then do not have the state yet.
TEST(Membership, TheLastOneThatHasTheStateStaysUntilAnotherProcessHasIt) {
  FourAtPlaces job;
  const MemberId fifth = job.come("a", -1, 7), oldest = job.at[3];
  for (const int place : {0, 1, 2, 3}) job.retire(place);
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  for (const MemberId id : job.at) job.enter(id);
  for (const int place : {0, 1, 2}) EXPECT_EQ(job.count<Over>(job.at[place]), 1u) << place;
  EXPECT_EQ(job.count<Over>(oldest), 0u);
  EXPECT_EQ(job.assigned(oldest).size, 2);
  job.complete();
  job.wait(milliseconds(250));
  for (const MemberId id : {oldest, fifth}) job.receive(id, Commits{7});
  for (const MemberId id : {oldest, fifth}) job.enter(id);
  EXPECT_EQ(job.count<Over>(oldest), 1u);
  EXPECT_EQ(job.assigned(fifth).size, 1);
}

// A process has failed, and its launcher replaces it only a moment later.
TEST(Membership, AfterAFailureTheStateDoesNotLeave) {
  Job job({.min = 1, .max = 2, .first = 1});
  const MemberId keeper = job.come("a", -1, 0);
  job.complete();
  const MemberId newcomer = job.come("a", -1, 1);
  job.wait(milliseconds(250));
  job.receive(keeper, Commits{1});
  job.enter(keeper);
  job.retire(0);
  for (const MemberId id : {keeper, newcomer}) job.receive(id, Contribution{"x"});
  for (const MemberId id : {keeper, newcomer}) job.receive(id, Leave{1});
  job.end(newcomer);  // before it has the state
  job.enter(keeper);
  EXPECT_EQ(job.failure(keeper), "none");
  EXPECT_EQ(job.assigned(keeper).size, 1);
  job.complete();
  job.expect(1);
  job.wait(milliseconds(250));
  EXPECT_EQ(job.count<AskCommits>(keeper), 1u) << "its world does not end before somebody comes";
}

// A process that was in an earlier world may first have to receive the state in the newest world. It has the state only
// when it has trained there.
TEST(Membership, WhoeverReceivesTheStateDoesNotHaveItYet) {
  FourAtPlaces job;
  job.end(job.at[3]);
  for (const int place : {0, 1, 2}) job.enter(job.at[place]);
  for (const int place : {0, 1}) job.retire(place);
  for (const int place : {0, 1, 2}) job.receive(job.at[place], Contribution{"x"});
  for (const int place : {0, 1, 2}) job.receive(job.at[place], Leave{1});
  for (const int place : {2, 1, 0}) job.enter(job.at[place]);  // their synchronization has failed
  for (const int place : {0, 1}) EXPECT_EQ(job.count<Over>(job.at[place]), 0u) << place;
  EXPECT_EQ(job.assigned(job.at[0]).size, 3);
}

TEST(Membership, AProcessThatKeepsTheStateAndWaitsLeavesIfNobodyComes) {
  Job job({.min = 2, .max = 4, .first = 2});
  const MemberId a = job.come("a", -1, 0), b = job.come("a", -1, 1);
  job.complete();
  for (const int place : {0, 1}) job.retire(place);
  job.expect(1);
  job.wait(milliseconds(250));
  for (const MemberId id : {a, b}) job.receive(id, Commits{1});
  for (const MemberId id : {a, b}) job.enter(id);
  EXPECT_EQ(job.count<Over>(b), 1u);
  EXPECT_EQ(job.failure(a), "none");
  job.expect(0);
  EXPECT_THAT(job.failure(a), HasSubstr("the state of the job is lost"));
}

TEST(Membership, AProcessThatKeepsTheStateTrainsWhileNobodyCanGetIt) {
  FourAtPlaces job;
  for (const int place : {0, 1, 2, 3}) job.retire(place);
  job.expect(1);
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  for (const MemberId id : job.at) job.enter(id);
  const MemberId oldest = job.at[3];
  EXPECT_EQ(job.assigned(oldest).size, 1);
  job.complete();
  job.wait(milliseconds(250));
  EXPECT_EQ(job.count<AskCommits>(oldest), 1u) << "its world does not end before somebody comes";
  job.expect(0);
  job.wait(milliseconds(250));
  job.receive(oldest, Commits{9});
  job.enter(oldest);
  EXPECT_THAT(job.failure(oldest), HasSubstr("the state of the job is lost"));
}

TEST(Membership, TheLastOnesThatAreAskedToLeaveLoseTheState) {
  FourAtPlaces job;
  job.retire(1);
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  job.enter(job.at[1]);
  for (const int place : {0, 2, 3}) job.retire(place);
  for (const int place : {0, 2, 3}) job.enter(job.at[place]);
  EXPECT_EQ(job.count<Over>(job.at[1]), 1u) << "the others went on when it left";
  for (const int place : {0, 2, 3}) EXPECT_THAT(job.failure(job.at[place]), HasSubstr("is lost")) << place;
}

TEST(Membership, ProcessesThatAllLeaveBeforeTheTrainingDoNotSucceed) {
  Job job({.min = 2, .max = 4, .first = 2});
  const MemberId a = job.come(), b = job.come();
  for (const MemberId id : {a, b}) job.receive(id, Retire{});
  for (const MemberId id : {a, b}) job.enter(id);
  for (const MemberId id : {a, b})
    EXPECT_THAT(job.failure(id), HasSubstr("were asked to leave before it had begun to train"));
}

TEST(Membership, TheLastToEnterMayBeTheOneThatWasAskedToLeave) {
  FourAtPlaces job;
  job.retire(2);
  job.wait(milliseconds(250));
  for (const MemberId id : job.at) job.receive(id, Commits{5});
  for (const int place : {1, 0, 3, 2}) job.enter(job.at[place]);
  EXPECT_EQ(job.count<Over>(job.at[2]), 1u);
  EXPECT_EQ(job.assigned(job.at[0]).size, 3);
}

TEST(Membership, AProcessOfTheLobbyLeavesAtOnce) {
  FourAtPlaces job;
  const MemberId fifth = job.come("a", -1, 7);
  job.retire(7);
  EXPECT_EQ(job.count<Over>(fifth), 1u);
  EXPECT_THAT(job.membership.status().released, ::testing::ElementsAre(::testing::Pair(7, std::int64_t(fifth))));
  job.wait(milliseconds(250));
  EXPECT_EQ(job.count<AskCommits>(job.at[0]), 0u) << "the world is not disturbed";
}

TEST(Membership, AProcessThatIsAskedWhileItStartsLeavesAtTheFirstCommit) {
  FourAtPlaces job;
  job.end(job.at[3]);
  for (const int place : {0, 1, 2}) job.enter(job.at[place]);
  job.retire(1);
  job.complete();
  job.wait(milliseconds(250));
  EXPECT_EQ(job.count<AskCommits>(job.at[0]), 1u);
}

TEST(Membership, AProcessThatIsAskedWhileTheWorldGathersLeavesAtOnce) {
  FourAtPlaces job;
  job.end(job.at[3]);
  for (const int place : {0, 1}) job.enter(job.at[place]);
  job.retire(1);
  EXPECT_EQ(job.count<Over>(job.at[1]), 1u);
  job.enter(job.at[2]);
  EXPECT_EQ(job.assigned(job.at[0]).size, 2);
}

}  // namespace
}  // namespace anello::rendezvous
