// The membership of a server that has succeeded another one: who is awaited, who is taken in, and who may go on.
#include <gmock/gmock.h>

#include "tests/rendezvous/membership_job.hpp"
#include "tests/rendezvous/peers.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Finding = Inheritance::Finding;

// A job of three processes whose server has ended. The process that had rank 1 has come to the successor.
struct Inherited : Job {
  explicit Inherited(const ElasticLimits& limits) : Job(limits) {
    Lineage lineage;
    lineage.starts({.generation = 5, .rank = 1}, peers({1, 2, 3}), {}, {});
    membership.inherit(lineage, 6, true);
    a = come_back(1, 4);
  }
  MemberId arrive(int rank, int local_rank) {
    const MemberId id = MemberId(10 + rank);
    pass(membership.joined(id, on("a", rank, -1, local_rank), now));
    return id;
  }
  MemberId come_back(int rank, int local_rank) {
    const MemberId id = arrive(rank, local_rank);
    receive(id, Enter{6});
    return id;
  }
  void find(Finding what, const std::vector<std::uint32_t>& pids) {
    for (const Peer& peer : peers(pids)) pass(membership.found(peer, what, now));
  }
  MemberId a = 0;
};

// The process that had rank 2 has come too.
struct Inherited3 : Inherited {
  explicit Inherited3(int max = 4) : Inherited({.min = 1, .max = max, .may_be_succeeded = true}) {
    b = come_back(2, 0);
  }
  MemberId b = 0;
};

TEST(Membership, ASuccessorGoesOnWithTheNextWorldWhenTheOthersHaveEnded) {
  Inherited3 job;
  EXPECT_EQ(job.assigned(job.a).generation, 0u);
  job.find(Finding::dead, {1});
  EXPECT_EQ(job.assigned(job.a).generation, 7u);
  EXPECT_EQ(job.assigned(job.a).rank, 0);
  EXPECT_EQ(job.assigned(job.a).local_rank, 4);
  EXPECT_EQ(job.assigned(job.b).rank, 1);
  EXPECT_TRUE(job.assigned(job.a).begun);
  EXPECT_THAT(job.assigned(job.a).change, HasSubstr("left: rank 0 (10.0.0.1 pid 1, which has ended)"));
  EXPECT_TRUE(job.membership.inherits());
  job.complete();
  EXPECT_FALSE(job.membership.inherits());
}

TEST(Membership, ASuccessorWithoutMoreThanHalfEndsTheJobWithTheReason) {
  Inherited3 job;
  job.find(Finding::gone, {1});
  EXPECT_EQ(job.assigned(job.a).generation, 7u);
  Inherited alone({.min = 1, .max = 4, .silence = milliseconds(3000), .may_be_succeeded = true});
  alone.find(Finding::gone, {1, 3});
  alone.wait(milliseconds(2900));
  EXPECT_EQ(alone.failure(alone.a), "none");
  alone.receive(alone.a, Present{});
  alone.wait(milliseconds(200));
  EXPECT_THAT(alone.failure(alone.a),
              HasSubstr("more than half of the last world must go on; missing: rank 0 (10.0.0.1"));
}

// The third process was given up as gone. But it has come to the successor, and only its message that it enters is
// missing.
TEST(Membership, ASuccessorWaitsForAProcessThatHasComeAndNotEntered) {
  Inherited3 job;
  const MemberId late = job.arrive(0, 1);
  job.find(Finding::gone, {1});
  EXPECT_EQ(job.assigned(job.a).generation, 0u);
  job.receive(late, Enter{6});
  EXPECT_EQ(job.assigned(job.a).generation, 7u);
  EXPECT_EQ(job.assigned(late).rank, 0);
  Inherited3 other;
  const MemberId lost = other.arrive(0, 1);
  other.find(Finding::gone, {1});
  other.pass(other.membership.disconnected(lost, other.now));
  EXPECT_EQ(other.assigned(other.a).generation, 7u);
}

// The third process was given up before the start, so the two others have begun without it.
TEST(Membership, AProcessThatComesBackWhileTheFirstWorldStartsIsTakenIn) {
  Inherited3 job;
  job.find(Finding::gone, {1});
  ASSERT_EQ(job.assigned(job.b).generation, 7u);
  const MemberId late = job.arrive(0, 1);
  EXPECT_EQ(job.count<Again>(job.a), 1u);
  EXPECT_EQ(job.count<Again>(job.b), 1u);
  job.enter(job.a);
  job.enter(job.b);
  job.receive(late, Enter{6});
  EXPECT_EQ(job.assigned(late).generation, 8u);
  job.complete();
  EXPECT_FALSE(job.membership.inherits());
}

TEST(Membership, ANewcomerMakesRoomForAProcessThatComesBack) {
  Inherited3 job(3);
  const MemberId newcomer = job.come();
  job.find(Finding::gone, {1});
  ASSERT_EQ(job.assigned(newcomer).generation, 7u);
  const MemberId late = job.arrive(0, 1);
  for (const MemberId one : {newcomer, job.a, job.b}) job.enter(one);
  job.receive(late, Enter{6});
  EXPECT_EQ(job.assigned(late).generation, 8u);
  EXPECT_EQ(job.assigned(newcomer).generation, 7u);
  EXPECT_EQ(job.of_newest().size(), 3u);
}

// It comes from a start of another successor, which has died meanwhile.
TEST(Membership, AProcessThatComesWithAHigherNumberTakesNoPlaceAway) {
  Inherited3 job;
  job.find(Finding::gone, {1});
  const MemberId late = job.arrive(0, 1);
  job.receive(late, Enter{9});
  for (const MemberId one : {job.a, job.b}) job.receive(one, Enter{7});
  for (const MemberId one : {late, job.a, job.b}) EXPECT_EQ(job.assigned(one).generation, 10u) << job.failure(one);
}

// Its first connection was cut before it entered.
TEST(Membership, AProcessMayComeToASuccessorTwiceBeforeItEnters) {
  Inherited3 job;
  job.arrive(0, 1);
  constexpr MemberId kAgain = 99;
  job.pass(job.membership.joined(kAgain, on("a", 0, -1, 1), job.now));
  job.receive(kAgain, Enter{6});
  EXPECT_EQ(job.assigned(kAgain).generation, 7u);
  EXPECT_EQ(job.of_newest().size(), 3u);
}

TEST(Membership, AProcessThatComesToASuccessorTwiceIsAwaitedAllTheTime) {
  Inherited3 job;
  job.arrive(0, 1);
  job.find(Finding::gone, {1});
  constexpr MemberId kAgain = 99;
  job.pass(job.membership.joined(kAgain, on("a", 0, -1, 1), job.now));
  EXPECT_EQ(job.assigned(job.a).generation, 0u);
  job.receive(kAgain, Enter{6});
  EXPECT_EQ(job.assigned(kAgain).generation, 7u);
  EXPECT_EQ(job.of_newest().size(), 3u);
}

TEST(Membership, ASuccessorWithoutMoreThanHalfWaitsForAProcessThatHasCome) {
  Inherited job({.min = 1, .max = 4, .silence = milliseconds(3000), .may_be_succeeded = true});
  job.find(Finding::gone, {1, 3});
  job.answer_for(milliseconds(2500));
  EXPECT_THAT(job.membership.waiting(), HasSubstr("missing: rank 0 (10.0.0.1 pid 1, which cannot be reached)"));
  const MemberId late = job.arrive(0, 1);
  EXPECT_THAT(job.membership.waiting(), Not(HasSubstr("rank 0 (10.0.0.1 pid 1")));
  EXPECT_THAT(job.membership.waiting(), HasSubstr("missing: rank 2"));
  job.wait(milliseconds(1000));
  EXPECT_EQ(job.failure(job.a), "none");
  job.receive(late, Enter{6});
  EXPECT_EQ(job.assigned(job.a).generation, 7u);
}

// The limit for a majority is shorter than the patience with too few processes.
TEST(Membership, ASuccessorThatMayGoOnWaitsForEnoughProcessesWithThePatienceOfTheJob) {
  Inherited job(
      {.min = 2, .max = 4, .patience = milliseconds(60000), .silence = milliseconds(3000), .may_be_succeeded = true});
  job.find(Finding::gone, {1, 3});
  job.find(Finding::dead, {1, 3});
  job.answer_for(milliseconds(10000));
  EXPECT_EQ(job.failure(job.a), "none");
  job.answer_for(milliseconds(60000));
  EXPECT_THAT(job.failure(job.a), HasSubstr("only 1 of at least 2 processes were there within 60 s"));
}

TEST(Membership, AServerOfAProcessThatNobodyHasJoinedWaitsForNothing) {
  Job job({.may_be_succeeded = true});
  Lineage lineage;
  lineage.starts({.generation = 5, .rank = 0}, peers({1, 2}), {}, {});
  job.membership.inherit(lineage, 5, true);
  EXPECT_EQ(job.membership.waiting(), "");
}

TEST(Membership, ASuccessorHandsOverWhenItsRanksEndAWorldTogether) {
  Three job;
  job.pass(job.membership.hand_over(job.now));
  job.wait(milliseconds(300));
  for (const MemberId id : {job.a, job.b, job.c}) job.receive(id, Commits{7});
  for (const MemberId id : {job.a, job.b, job.c}) {
    EXPECT_EQ(job.newest<Boundary>(id)->commit, 8u);
    EXPECT_EQ(job.count<ComeAgain>(id), 0u);
    job.enter(id);
  }
  for (const MemberId id : {job.a, job.b, job.c}) EXPECT_EQ(job.count<ComeAgain>(id), 1u);
  EXPECT_TRUE(job.membership.status().processes.empty());
  EXPECT_EQ(job.count<ComeAgain>(job.come()), 1u) << "it comes too late";
}

TEST(Membership, ASuccessorServesOnWhenTheTrainingHasEnded) {
  Three job;
  job.receive(job.a, Done{});
  job.pass(job.membership.hand_over(job.now));
  job.enter(job.b);
  job.enter(job.c);
  EXPECT_EQ(job.count<ComeAgain>(job.b), 0u);
  EXPECT_EQ(job.assigned(job.b).generation, 2u) << "it must repeat its last step";
}

// If this server admitted a newcomer, it would begin another job here.
TEST(Membership, ASuccessorThatHandsOverAdmitsNobodyWhenItsRanksHaveEnded) {
  Three job;
  job.pass(job.membership.hand_over(job.now));
  const MemberId early = job.come();
  for (const MemberId id : {job.a, job.b, job.c}) job.end(id);
  EXPECT_THAT(job.failure(early), HasSubstr("no process that had it is left"));
  EXPECT_EQ(job.count<ComeAgain>(job.come()), 1u);

  Inherited3 inherits;
  const MemberId newcomer = inherits.come();
  inherits.end(inherits.a);
  EXPECT_EQ(inherits.count<ComeAgain>(newcomer), 0u);
  inherits.pass(inherits.membership.hand_over(inherits.now));
  EXPECT_EQ(inherits.count<ComeAgain>(newcomer), 1u);
  EXPECT_EQ(inherits.count<ComeAgain>(inherits.b), 1u) << "the process of this server cannot join any more";
}

// Perhaps the ranks of this server are no majority of the last world, and need this server for the next world.
TEST(Membership, ASuccessorServesOnWhileItsRanksCannotGoOnAlone) {
  Three job;
  job.pass(job.membership.hand_over(job.now));
  job.end(job.c);
  job.enter(job.a);
  job.enter(job.b);
  EXPECT_EQ(job.assigned(job.a).generation, 2u);
  for (const MemberId id : {job.a, job.b}) job.receive(id, Contribution{"x"});
  for (const MemberId id : {job.a, job.b}) job.receive(id, Leave{1});
  job.receive(job.a, Begun{});
  job.enter(job.a);
  job.enter(job.b);
  EXPECT_EQ(job.assigned(job.a).generation, 3u) << "one has not trained in world 2";
  job.complete();
  job.come();
  job.enter(job.a);
  job.enter(job.b);
  EXPECT_EQ(job.assigned(job.a).generation, 4u) << "with the newcomer";
  EXPECT_EQ(job.count<ComeAgain>(job.a), 0u);
}

// The process comes again because its old connection was cut, which the successor has not noticed yet.
TEST(Membership, AProcessMayComeToASuccessorAgain) {
  Inherited3 job;
  const MemberId again = 99;
  job.pass(job.membership.joined(again, on("a", 2, -1, 0), job.now));
  job.receive(again, Enter{6});
  job.find(Finding::dead, {1});
  EXPECT_EQ(job.assigned(again).rank, 1);
  EXPECT_EQ(job.assigned(job.b).generation, 0u);
}

}  // namespace
}  // namespace anello::rendezvous
