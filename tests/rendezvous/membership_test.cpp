#include "rendezvous/server/membership.hpp"

#include <gmock/gmock.h>

#include <map>

#include "tests/rendezvous/joins.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A membership with the messages that each process has received, and functions that do what a process does.
class Job {
 public:
  explicit Job(ElasticLimits limits) : membership(limits, std::chrono::seconds(60), 42) {}

  // Returns the number of a process that has joined and entered.
  MemberId come(const std::string& host = "a", int local_rank = -1) {
    const MemberId id = next_++;
    pass(membership.joined(id, on(host, -1, -1, local_rank), now));
    receive(id, Enter{0});
    return id;
  }
  void receive(MemberId id, const Request& request) { pass(membership.received(id, request, now)); }
  void enter(MemberId id) { receive(id, Enter{assigned(id).generation}); }
  void end(MemberId id) { pass(membership.disconnected(id, now)); }
  // All processes of the newest world exchange once and leave.
  void complete() {
    const std::vector<MemberId> ranks = of_newest();
    for (const MemberId id : ranks) receive(id, Contribution{"x"});
    for (const MemberId id : ranks) receive(id, Leave{1});
    for (const MemberId id : ranks) receive(id, Begun{});
  }
  void wait(milliseconds time) {
    const Time until = now + time;
    while (membership.deadline() && *membership.deadline() <= until) {
      now = std::max(now, *membership.deadline());
      pass(membership.expired(now));
    }
    now = until;
  }
  // Like wait(), and all processes answer, except for those that are stopped.
  void answer_for(milliseconds time) {
    for (milliseconds passed{0}; passed < time; passed += milliseconds(500)) {
      wait(milliseconds(500));
      for (const auto& [id, all] : std::map(got))
        if (std::ranges::count(stopped, id) == 0) receive(id, Present{});
    }
  }
  std::vector<MemberId> of_newest() const {
    std::map<int, MemberId> by_rank;
    for (const auto& [id, all] : got)
      if (newest<Assigned>(id) && newest<Assigned>(id)->generation == membership.generation())
        by_rank[newest<Assigned>(id)->rank] = id;
    std::vector<MemberId> ids;
    for (const auto& [rank, id] : by_rank) ids.push_back(id);
    return ids;
  }
  template <class Message>
  const Message* newest(MemberId id) const {
    const auto at = got.find(id);
    if (at == got.end()) return nullptr;
    for (auto one = at->second.rbegin(); one != at->second.rend(); one++)
      if (const auto* message = std::get_if<Message>(&*one)) return message;
    return nullptr;
  }
  const Assigned& assigned(MemberId id) const {
    static const Assigned none{0, -1, 0};
    const auto* message = newest<Assigned>(id);
    return message ? *message : none;
  }
  std::string failure(MemberId id) const {
    const auto* message = newest<Failed>(id);
    return message ? message->message : "none";
  }
  template <class Message>
  std::size_t count(MemberId id) const {
    const auto at = got.find(id);
    if (at == got.end()) return 0;
    return std::size_t(
        std::ranges::count_if(at->second, [](const Reply& reply) { return std::holds_alternative<Message>(reply); }));
  }

  Membership membership;
  Time now{};
  std::map<MemberId, std::vector<Reply>> got;
  std::vector<MemberId> stopped;

 private:
  void pass(const Sends& sends) {
    for (const Send& send : sends)
      for (const MemberId id : send.to) got[id].push_back(send.reply);
  }
  MemberId next_ = 1;
};

// A running world of three.
struct Three : Job {
  explicit Three(ElasticLimits limits = {.min = 2, .max = 4, .first = 3}) : Job(limits) {
    for (MemberId* id : {&a, &b, &c}) *id = come();
    complete();
  }
  MemberId a = 0, b = 0, c = 0;
};

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

// Also after a kill of rank 0.
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
  EXPECT_EQ(job.membership.lobby(), 1u);
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

// Its world stands, and fails before those of the others stand.
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
  EXPECT_EQ(job.count<AskPresence>(job.c), 0u);
  job.wait(std::chrono::seconds(7));
  EXPECT_THAT(job.failure(job.b), HasSubstr("this process has lost its place in the job: it was silent for 5 s"));
  EXPECT_EQ(job.assigned(job.c).size, 1);
  job.receive(job.b, Enter{1});
  EXPECT_EQ(job.assigned(job.c).generation, 2u) << "one that comes back later changes nothing";
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
  EXPECT_FALSE(job.membership.begun());
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

// A process that waits alone may end, and another one come much later.
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
  EXPECT_EQ(job.membership.lobby(), 0u);
  EXPECT_EQ(job.count<AskCommits>(job.b), asked);
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
  job.end(job.c);  // it has only lost its connection: the world runs
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

// The rank's message was on its way when the start was given up.
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

}  // namespace
}  // namespace anello::rendezvous
