#include <gmock/gmock.h>

#include "tests/rendezvous/membership_job.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Membership, TheFirstWorldBeginsWhenAsManyAreThereAsWished) {
  Job job({.min = 1, .max = 4, .first = 2});
  const MemberId a = job.come();
  EXPECT_EQ(job.assigned(a).generation, 0u);
  EXPECT_THAT(job.membership.waiting(), HasSubstr("1 of at least 2"));
  const MemberId b = job.come();
  EXPECT_EQ(job.assigned(a).rank, 0);
  EXPECT_EQ(job.assigned(b).rank, 1);
  EXPECT_EQ(job.assigned(b).size, 2);
  EXPECT_EQ(job.assigned(b).generation, 1u);
  EXPECT_EQ(job.assigned(b).incarnation, 42u);
  EXPECT_FALSE(job.assigned(b).begun);
  EXPECT_EQ(job.assigned(b).change, "");
}

TEST(Membership, TheFirstWorldBeginsWithFewerThanWishedWhenTheStartsPatienceIsOver) {
  Job job({.min = 2, .max = 4, .first = 3});
  const MemberId a = job.come(), b = job.come();
  job.answer_for(std::chrono::seconds(59));
  EXPECT_EQ(job.assigned(a).size, 0);
  job.answer_for(std::chrono::seconds(2));
  EXPECT_EQ(job.assigned(b).size, 2);
}

TEST(Membership, AnExchangeEndsWithTheLastContribution) {
  Job job({.first = 2});
  const MemberId a = job.come(), b = job.come();
  job.receive(b, Contribution{"of b"});
  EXPECT_EQ(job.count<Gathered>(b), 0u);
  job.receive(a, Contribution{"of a"});
  EXPECT_THAT(job.newest<Gathered>(a)->blobs, ElementsAre("of a", "of b"));
  EXPECT_THAT(job.newest<Gathered>(b)->blobs, ElementsAre("of a", "of b"));
  job.receive(a, Leave{});
  EXPECT_EQ(job.membership.phase(), Membership::Phase::starting);
  job.receive(b, Leave{});
  EXPECT_EQ(job.membership.phase(), Membership::Phase::steady);
}

// This is so also after a kill of rank 0.
TEST(Membership, TheNextWorldBeginsAsSoonAsAllThatLiveHaveEntered) {
  Three job;
  job.end(job.a);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.c).generation, 1u) << "b lives, and has not entered";
  EXPECT_THAT(job.membership.waiting(), HasSubstr("1 of 2 processes are ready; not yet a (rank 1)"));
  job.enter(job.b);
  EXPECT_EQ(job.assigned(job.b).rank, 0);
  EXPECT_EQ(job.assigned(job.c).rank, 1);
  EXPECT_EQ(job.assigned(job.c).size, 2);
  EXPECT_EQ(job.assigned(job.c).generation, 2u);
  EXPECT_TRUE(job.assigned(job.c).begun);
  EXPECT_THAT(job.assigned(job.c).change, HasSubstr("left: rank 0 (a, pid "));
  EXPECT_THAT(job.assigned(job.c).change, HasSubstr("it ended or lost its connection"));
}

TEST(Membership, TheLastThatIsAwaitedMayEndInsteadOfEntering) {
  Three job({.min = 1, .first = 3});
  job.end(job.a);
  job.enter(job.c);
  job.end(job.b);
  EXPECT_EQ(job.assigned(job.c).size, 1);
}

TEST(Membership, ALocalRankNeverChangesAndItsHoleIsFilled) {
  Three job;
  job.end(job.a);
  job.enter(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.b).local_rank, 1);
  EXPECT_EQ(job.assigned(job.c).local_rank, 2);
  EXPECT_EQ(job.assigned(job.c).local_size, 3);
  job.complete();
  const MemberId d = job.come();
  job.end(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(d).local_rank, 0);
  EXPECT_EQ(job.assigned(job.c).local_rank, 2);
}

TEST(Membership, RanksFollowSeniorityAndStayTogetherOnTheirHosts) {
  Job job({.min = 1, .max = 6, .first = 2});
  const MemberId z = job.come("z"), a = job.come("a");
  job.complete();
  const MemberId new_a = job.come("a"), new_z = job.come("z");
  job.enter(a);
  job.enter(z);
  EXPECT_EQ(job.assigned(z).rank, 0);
  EXPECT_EQ(job.assigned(new_z).rank, 1);
  EXPECT_EQ(job.assigned(a).rank, 2);
  EXPECT_EQ(job.assigned(new_a).rank, 3);
  EXPECT_EQ(job.assigned(a).node_rank, 1);
}

TEST(Membership, TheLobbyGoesInWithTheSurvivorsUpToTheMaximum) {
  Three job;
  const MemberId d = job.come(), e = job.come(), f = job.come();
  job.end(job.a);
  job.enter(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(d).size, 4);
  EXPECT_EQ(job.assigned(e).rank, 3);
  EXPECT_EQ(job.assigned(f).size, 0);
  EXPECT_THAT(job.assigned(e).change, HasSubstr("; joined: a pid "));
}

TEST(Membership, BelowTheMinimumTheJobWaitsAndThenEnds) {
  Three job({.min = 2, .first = 3, .patience = std::chrono::seconds(600)});
  job.end(job.a);
  job.end(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.c).generation, 1u);
  EXPECT_THAT(job.membership.waiting(), HasSubstr("1 of at least 2"));
  job.wait(std::chrono::seconds(599));
  EXPECT_EQ(job.failure(job.c), "none");
  job.wait(std::chrono::seconds(2));
  EXPECT_THAT(job.failure(job.c), HasSubstr("only 1 of at least 2 processes were there within 600"));
}

TEST(Membership, AProcessOfTheLobbyEndsTheWait) {
  Three job;
  job.end(job.a);
  job.end(job.b);
  job.enter(job.c);
  job.wait(std::chrono::seconds(30));
  const MemberId d = job.come();
  EXPECT_EQ(job.assigned(job.c).rank, 0);
  EXPECT_EQ(job.assigned(d).rank, 1);
}

TEST(Membership, ADeathDuringTheStartMakesTheOthersComeAgain) {
  Job job({.min = 1, .first = 3});
  const MemberId a = job.come(), b = job.come(), c = job.come();
  job.receive(a, Contribution{"x"});
  job.end(b);
  EXPECT_THAT(job.newest<Again>(a)->reason, HasSubstr("rank 1 (a, pid "));
  EXPECT_EQ(job.count<Again>(c), 1u);
  job.receive(c, Contribution{"too late"});
  EXPECT_EQ(job.failure(c), "none");
  job.enter(a);
  job.enter(c);
  EXPECT_EQ(job.assigned(a).generation, 2u);
  EXPECT_EQ(job.assigned(c).size, 2);
  job.complete();
  EXPECT_EQ(job.membership.phase(), Membership::Phase::steady);
}

// One rank has made its world, and this world fails before the other ranks have made theirs.
TEST(Membership, AWorldThatFailsBeforeAllAreCompleteStartsAgain) {
  Three job;
  job.end(job.a);
  job.enter(job.b);
  job.enter(job.c);
  job.receive(job.b, Contribution{"x"});
  job.receive(job.c, Contribution{"x"});
  job.receive(job.b, Leave{});
  job.enter(job.b);
  EXPECT_EQ(job.count<Again>(job.c), 1u);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.c).generation, 3u);
}

TEST(Membership, AStartThatNeverEndsBeginsAgainWithoutTheOneThatIsLate) {
  Job job({.min = 1, .first = 2, .silence = std::chrono::seconds(1000)});
  const MemberId a = job.come(), b = job.come();
  job.receive(a, Contribution{"x"});
  job.wait(std::chrono::seconds(61));
  EXPECT_THAT(job.failure(b), HasSubstr("it did not start within 60"));
  EXPECT_EQ(job.count<Again>(a), 1u);
  job.enter(a);
  EXPECT_EQ(job.assigned(a).size, 1);
}

TEST(Membership, AProcessThatComputesIsAwaitedAndOneThatIsSilentLosesItsPlace) {
  Three job({.min = 1, .first = 3, .silence = std::chrono::seconds(5)});
  job.end(job.a);
  job.enter(job.c);
  for (int second = 0; second < 100; second++) {
    job.wait(std::chrono::seconds(1));
    job.receive(job.b, Present{});
  }
  EXPECT_EQ(job.assigned(job.c).generation, 1u);
  EXPECT_GE(job.count<AskPresence>(job.b), 99u);
  EXPECT_GE(job.count<AskPresence>(job.c), 99u) << "this shows to one that waits that the server answers";
  job.wait(std::chrono::seconds(7));
  EXPECT_THAT(job.failure(job.b), HasSubstr("this process has lost its place in the job: it was silent for 5 s"));
  EXPECT_EQ(job.assigned(job.c).size, 1);
  job.receive(job.b, Enter{1});
  EXPECT_EQ(job.assigned(job.c).generation, 2u) << "one that comes back later changes nothing";
}

// All these processes are silent at the same time, as if the machine or a scheduler had suspended them.
TEST(Membership, AllProcessesThatHaveTheStateMayBeSilentTogether) {
  for (const bool for_ever : {false, true}) {
    Three job(
        {.min = 1, .max = 4, .first = 3, .patience = std::chrono::seconds(60), .silence = std::chrono::seconds(5)});
    const MemberId d = job.come();
    job.end(job.a);
    job.stopped = {job.b, job.c};
    job.answer_for(std::chrono::seconds(50));
    EXPECT_EQ(job.failure(job.b), "none");
    EXPECT_EQ(job.failure(job.c), "none");
    if (!for_ever) job.enter(job.c);
    job.answer_for(std::chrono::seconds(15));
    EXPECT_THAT(job.failure(job.b), HasSubstr(for_ever ? "it was silent for 60 s" : "it was silent for 5 s"));
    EXPECT_EQ(job.assigned(d).generation, for_ever ? 0u : 2u);
  }
}

TEST(Membership, ProcessesThatAreSuspendedTogetherNeedNotStopOrContinueInOneMoment) {
  Three job({.min = 1, .max = 4, .first = 3, .patience = std::chrono::seconds(60), .silence = std::chrono::seconds(5)});
  job.end(job.a);
  job.answer_for(milliseconds(2000));
  job.stopped = {job.b};
  job.answer_for(milliseconds(2500));
  job.stopped = {job.b, job.c};
  job.answer_for(milliseconds(20'000));
  job.stopped = {job.b};
  job.answer_for(milliseconds(4000));
  EXPECT_EQ(job.failure(job.b), "none");
  EXPECT_EQ(job.failure(job.c), "none");
  job.answer_for(milliseconds(3000));
  EXPECT_THAT(job.failure(job.b), HasSubstr("it was silent for 5 s"));
}

TEST(Membership, OnlyTheNewestWorldMayBeLeft) {
  Three job;
  job.end(job.a);
  job.enter(job.b);
  job.enter(job.c);
  job.complete();
  job.receive(job.b, Enter{1});
  EXPECT_THAT(job.failure(job.b), HasSubstr("it comes from world 1, and the newest one is 2"));
}

TEST(Membership, TheStateIsLostWithTheLastProcessThatHadIt) {
  Three job;
  const MemberId d = job.come();
  for (const MemberId id : {job.a, job.b, job.c}) job.end(id);
  EXPECT_THAT(job.failure(d), HasSubstr("the state of the job is lost"));
  EXPECT_THAT(job.failure(d), HasSubstr("start the job again from its checkpoint"));
  const MemberId e = job.come(), f = job.come(), g = job.come();
  EXPECT_EQ(job.assigned(e).size, 3) << "another job begins";
  EXPECT_FALSE(job.assigned(e).begun);
  EXPECT_GT(job.assigned(f).generation, 1u);
  EXPECT_EQ(job.assigned(g).rank, 2);
}

TEST(Membership, BeforeAWorldHasBegunNothingIsLost) {
  Job job({.min = 1, .max = 1, .first = 1});
  const MemberId a = job.come(), b = job.come();
  job.end(a);
  EXPECT_EQ(job.assigned(b).size, 1);
}

TEST(Membership, AfterTheFirstHasFinishedNobodyIsAdmitted) {
  Three job;
  const MemberId d = job.come();
  job.receive(job.a, Done{});
  EXPECT_EQ(job.count<Over>(d), 1u);
  const MemberId e = job.come();
  EXPECT_EQ(job.count<Over>(e), 1u);
  job.end(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.assigned(job.c).size, 1) << "the minimum no longer counts";
  job.complete();
  job.receive(job.c, Done{});
  EXPECT_EQ(job.membership.members(), 0u);
  EXPECT_FALSE(job.membership.status().begun);
}

TEST(Membership, AProcessThatOthersCannotReachIsRefusedAlone) {
  Three job;
  Join far = on("b");
  far.address = "127.0.0.1";
  for (const Reply& reply : {job.membership.joined(99, far, job.now).at(0).reply})
    EXPECT_EQ(std::get<Failed>(reply).code, ErrorCode::configuration);
  EXPECT_EQ(job.membership.phase(), Membership::Phase::steady);
}

TEST(Membership, TheLobbyIsBounded) {
  Job job({.min = 1, .max = 2, .first = 2});
  MemberId last = 0;
  for (int i = 0; i < 67; i++) last = job.come();
  EXPECT_THAT(job.failure(last), HasSubstr("there are 66 processes for at most 2 ranks"));
}

}  // namespace
}  // namespace anello::rendezvous
