#include "rendezvous/launch/processes/fixed_supervisor.hpp"

#include "rendezvous/launch/processes/memory_events.hpp"
#include "tests/launch/supervised.hpp"

namespace anello::launch {
namespace {

TEST_F(SupervisorTest, SuccessSaysNothing) {
  for (int rank = 0; rank < 3; rank++) ends(rank, kExit0);
  EXPECT_THAT(orders_, ElementsAre("signal 15")) << "for what ranks may have left";
  supervisor_.keeper_gone({});
  EXPECT_TRUE(supervisor_.over());
  EXPECT_EQ(supervisor_.exit_code(), 0);
  EXPECT_THAT(printed_, IsEmpty());
}

TEST_F(SupervisorTest, TheFirstFailureGivesTheCodeAndTheOthersTimeToSpeak) {
  ends(1, SIGKILL);
  ends(0, kExit3);
  EXPECT_THAT(printed_, ElementsAre("rank 1 (pid 101) was killed by signal 9 (Killed) on here"));
  EXPECT_THAT(orders_, IsEmpty());
  pass(999);
  EXPECT_THAT(orders_, IsEmpty());
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  pass(9999);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15", "kill"));
  EXPECT_EQ(printed_.back(), "still running, so killed: rank 2");
  ends(2, SIGKILL);
  supervisor_.keeper_gone({});
  EXPECT_EQ(supervisor_.exit_code(), 137);
  EXPECT_FALSE(supervisor_.keeper_was_killed());
}

TEST_F(SupervisorTest, AnErrorThatFollowsFromAKillMayBeFoundFirst) {
  ends(0, kExit3);
  EXPECT_THAT(printed_, IsEmpty());
  pass(50);
  ends(1, SIGKILL);
  EXPECT_THAT(printed_, ElementsAre("rank 1 (pid 101) was killed by signal 9 (Killed) on here"));
  EXPECT_EQ(supervisor_.exit_code(), 137);
  pass(949);
  EXPECT_THAT(orders_, IsEmpty());
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
}

TEST_F(SupervisorTest, AnErrorThatNothingExplainsIsNamedSoon) {
  ends(0, kExit3);
  pass(199);
  EXPECT_THAT(printed_, IsEmpty());
  pass(1);
  EXPECT_THAT(printed_, ElementsAre("rank 0 (pid 100) exited with status 3 on here"));
  ends(1, SIGKILL);
  EXPECT_EQ(printed_.size(), 1);
  EXPECT_EQ(supervisor_.exit_code(), 3);
}

TEST_F(SupervisorTest, AKillForLackOfMemoryIsSuggested) {
  kills_++;
  ends(1, SIGKILL);
  EXPECT_THAT(printed_, ElementsAre("rank 1 (pid 101) was killed by signal 9 (Killed) on here; meanwhile the kernel "
                                    "killed a process for lack of memory: start fewer ranks, or let each use less"));
}

TEST(MemoryEvents, AreCounted) {
  EXPECT_EQ(kills_in("low 0\nhigh 1\noom 4\noom_kill 3\noom_group_kill 0\n"), 3u);
  EXPECT_EQ(kills_in("nr_free_pages 100\n"), std::nullopt);
  EXPECT_EQ(kills_in(""), std::nullopt);
}

TEST_F(SupervisorTest, TheRankThatTheOthersBlameIsNamed) {
  supervisor_.received({2, 1, "rank 1 on here left the world after 0 operations", 1}, now_);
  ends(2, kExit3);
  ends(1, kExit0);
  pass(200);
  EXPECT_THAT(printed_,
              ElementsAre("rank 1 failed first: rank 1 on here left the world after 0 operations; its process ended "
                          "with status 0; because of that rank 2 (pid 102) exited with status 3 on there"));
  EXPECT_THAT(aborts_, ElementsAre(HasSubstr("1: rank 1 failed first")));
  EXPECT_EQ(supervisor_.exit_code(), 3);
}

TEST_F(SupervisorTest, TheExitOfTheRankThatTheOthersBlameIsTheCause) {
  supervisor_.received({2, 1, "rank 1 on here left the world after 0 operations", 1}, now_);
  ends(2, kExit3);
  ends(1, 5 << 8);
  pass(200);
  EXPECT_THAT(printed_, ElementsAre("rank 1 (pid 101) exited with status 5 on here"));
  EXPECT_EQ(supervisor_.exit_code(), 5);
}

TEST_F(SupervisorTest, TheRankThatTheOthersBlameMayExitLast) {
  supervisor_.received({2, 1, "rank 1 on here left the world after 0 operations", 1}, now_);
  supervisor_.received({0, 2, "a later one", 1}, now_);
  ends(2, kExit3);
  pass(200);
  ends(1, 5 << 8);
  EXPECT_THAT(printed_, ElementsAre(HasSubstr("rank 1 failed first")));
  EXPECT_EQ(supervisor_.exit_code(), 5);
}

TEST_F(SupervisorTest, AFailureThatTheRanksRecoveredFromBlamesNoRank) {
  supervisor_.received({1, 1, "rank 1 on here ended the world: once more", 1}, now_);
  newest_world_ = 2;
  ends(0, kExit3);
  pass(200);
  EXPECT_THAT(printed_, ElementsAre("rank 0 (pid 100) exited with status 3 on here"));
}

TEST_F(SupervisorTest, TheNewestWorldsFailureCounts) {
  supervisor_.received({1, 1, "rank 1 on here ended the world: once more", 1}, now_);
  newest_world_ = 2;
  supervisor_.received({0, 2, "rank 2 on here died", 2}, now_);
  ends(0, kExit3);
  pass(200);
  EXPECT_THAT(printed_, ElementsAre(HasSubstr("rank 2 failed first: rank 2 on here died")));
}

TEST_F(SupervisorTest, ACrashIsTheCauseEvenIfAnotherRankIsBlamed) {
  supervisor_.received({2, 1, "rank 1 on here is silent", 1}, now_);
  ends(2, kExit3);
  ends(0, SIGSEGV);
  EXPECT_THAT(printed_, ElementsAre(HasSubstr("rank 0 (pid 100) was killed by signal 11")));
}

TEST_F(SupervisorTest, ALastWordThatBlamesNobodyIsTheReasonAllTheSame) {
  supervisor_.received({2, -1, "the ranks did not agree", 1}, now_);
  ends(2, kExit3);
  ends(0, kExit3);
  pass(200);
  EXPECT_THAT(printed_,
              ElementsAre("the ranks failed together: the ranks did not agree; because of that rank 2 (pid 102) "
                          "exited with status 3 on there"));
  EXPECT_EQ(supervisor_.culprit(), -1);
  EXPECT_EQ(supervisor_.summary(false), " because of what the ranks did; ranks 0, 2 failed after that");
}

TEST_F(SupervisorTest, ALastWordAboutNoRankChangesNothing) {
  for (const int culprit : {-2, 3}) supervisor_.received({2, culprit, "there is no such rank", 1}, now_);
  ends(2, kExit3);
  pass(200);
  EXPECT_THAT(printed_, ElementsAre("rank 2 (pid 102) exited with status 3 on there"));
}

TEST_F(SupervisorTest, WhatIsKnownIsSaidBeforeAllAreKilled) {
  ends(0, kExit3);
  supervisor_.signalled(SIGINT, now_ + milliseconds(50));
  EXPECT_EQ(printed_.front(), "rank 0 (pid 100) exited with status 3 on here");
  EXPECT_THAT(orders_, ElementsAre("kill"));
}

TEST_F(SupervisorTest, NobodyIsWaitedForWhenAllHaveEnded) {
  ends(1, kExit3);
  ends(0, kExit3);
  ends(2, kExit0);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  EXPECT_THAT(printed_, ElementsAre("rank 1 (pid 101) exited with status 3 on here"));
}

TEST_F(SupervisorTest, ARankThatEndsEarlyInGoodOrderIsNoFailure) {
  ends(0, kExit0);
  EXPECT_FALSE(supervisor_.next_tick());
  ends(1, kExit3);
  EXPECT_EQ(supervisor_.exit_code(), 3);
}

TEST_F(SupervisorTest, ASignalIsPassedOnAndTheSecondKills) {
  supervisor_.signalled(SIGINT, now_);
  supervisor_.signalled(SIGINT, now_ + milliseconds(1));  // the same signal, sent to the process and to its group
  EXPECT_THAT(orders_, ElementsAre("signal 2"));
  EXPECT_THAT(printed_, ElementsAre("signal 2 (Interrupt) is passed on to all ranks; they have 10 s to end; a second "
                                    "signal kills them"));
  supervisor_.signalled(SIGINT, now_ + milliseconds(500));
  EXPECT_THAT(orders_, ElementsAre("signal 2", "kill"));
  for (int rank = 0; rank < 3; rank++) ends(rank, SIGKILL);
  supervisor_.keeper_gone({});
  EXPECT_EQ(supervisor_.exit_code(), 130);
}

TEST_F(SupervisorTest, AClosedPipeEndsTheJobQuietly) {
  supervisor_.reader_gone(now_);
  supervisor_.reader_gone(now_);
  ends(0, SIGTERM);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  EXPECT_THAT(printed_, IsEmpty());
  EXPECT_EQ(supervisor_.exit_code(), 141);
}

TEST_F(SupervisorTest, TheRanksAreToldWhatTheyMayNotKnow) {
  ends(0, SIGKILL);
  pass(199);
  EXPECT_THAT(aborts_, IsEmpty()) << "they know more of it themselves";
  pass(1);
  EXPECT_THAT(aborts_, ElementsAre("0: rank 0 (pid 100) was killed by signal 9 (Killed) on here"));
  pass(800);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
}

TEST_F(SupervisorTest, AWorldThatDoesNotEndWhenAskedIsToldWhyBeforeItIsKilled) {
  world_ = true;
  supervisor_.signalled(SIGTERM, now_);
  ends(0, kExit0);
  pass(9999);
  EXPECT_THAT(aborts_, IsEmpty());
  pass(1);
  EXPECT_THAT(aborts_, ElementsAre("-1: signal 15 (Terminated) was passed on to all ranks, and 10 s have passed"));
  pass(2999);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15", "kill"));
  EXPECT_EQ(printed_.back(), "still running, so killed: ranks 1, 2");
}

TEST_F(SupervisorTest, TheLastChanceIsNoLongerThanTheGrace) {
  world_ = true;
  job_.grace = milliseconds(300);
  supervisor_.signalled(SIGTERM, now_);
  pass(300);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  pass(300);
  EXPECT_THAT(orders_, ElementsAre("signal 15", "kill"));
}

TEST_F(SupervisorTest, WhoHasBeenToldIsNotToldAgain) {
  world_ = true;
  ends(1, kExit3);
  pass(200);
  pass(800);
  pass(10000);
  EXPECT_EQ(aborts_.size(), 1);
  EXPECT_THAT(orders_, ElementsAre("signal 15", "kill"));
}

TEST_F(SupervisorTest, AnImpatientSignalKillsAtOnce) {
  world_ = true;
  supervisor_.signalled(SIGTERM, now_);
  pass(2000);
  supervisor_.signalled(SIGTERM, now_);
  EXPECT_THAT(orders_, ElementsAre("signal 15", "kill"));
}

TEST_F(SupervisorTest, WhatSurvivesTheKillIsNamedAndGivenUp) {
  ends(0, kExit3);
  pass(200);
  pass(800);
  pass(10000);
  pass(5000);
  EXPECT_TRUE(supervisor_.over());
  EXPECT_TRUE(supervisor_.gave_up());
  EXPECT_THAT(printed_.back(), HasSubstr("ranks 1, 2"));
  EXPECT_EQ(supervisor_.exit_code(), 3);
}

TEST_F(SupervisorTest, TheTimeOfAJobMayBeLimited) {
  job_.timeout = milliseconds(1500);
  supervisor_.end_at(now_ + milliseconds(1500));
  ends(1, kExit0);
  pass(1499);
  EXPECT_THAT(orders_, IsEmpty());
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  EXPECT_THAT(printed_, ElementsAre("the job is ended: timed out after 1.5 s (--timeout)"));
  ends(0, SIGTERM);
  ends(2, SIGTERM);
  EXPECT_EQ(supervisor_.exit_code(), 124);
  EXPECT_EQ(supervisor_.summary(false), "; the launcher ended ranks 0, 2");
  EXPECT_FALSE(supervisor_.may_pass());
}

TEST_F(SupervisorTest, TheTimeOfAJobDoesNotHideAFailure) {
  job_.timeout = milliseconds(100);
  supervisor_.end_at(now_ + milliseconds(100));
  ends(1, kExit3);
  pass(1000);
  EXPECT_EQ(supervisor_.exit_code(), 3);
}

TEST_F(SupervisorTest, TheSummaryTellsFailuresFromRanksThatWereEnded) {
  ends(1, SIGKILL);
  ends(0, kExit3);
  pass(1000);
  ends(2, SIGTERM);
  const std::string others = "; rank 0 failed after that; the launcher ended rank 2";
  EXPECT_EQ(supervisor_.summary(true), ": rank 1 (pid 101) was killed by signal 9 (Killed) on here" + others);
  EXPECT_EQ(supervisor_.summary(false), " because of rank 1" + others);
  EXPECT_EQ(supervisor_.culprit(), 1);
}

TEST_F(SupervisorTest, OnlyAFailureOfARankMayPass) {
  EXPECT_FALSE(supervisor_.may_pass());
  ends(0, kExit3);
  pass(200);
  EXPECT_TRUE(supervisor_.may_pass());
  supervisor_.signalled(SIGINT, now_);
  EXPECT_FALSE(supervisor_.may_pass());
}

TEST_F(SupervisorTest, WrongUsageDoesNotPass) {
  ends(0, 2 << 8);
  pass(200);
  EXPECT_FALSE(supervisor_.may_pass());
}

TEST_F(SupervisorTest, AJobThatTheUserEndsHasNoSummary) {
  supervisor_.signalled(SIGINT, now_);
  for (int rank = 0; rank < 3; rank++) ends(rank, SIGINT);
  EXPECT_FALSE(supervisor_.failed());
  EXPECT_FALSE(supervisor_.may_pass());
}

TEST_F(SupervisorTest, AKilledKeeperIsAFailure) {
  ends(0, kExit0);
  supervisor_.keeper_gone({});
  EXPECT_TRUE(supervisor_.keeper_was_killed());
  EXPECT_EQ(supervisor_.exit_code(), 137);
}

TEST(LikelyCause, CrashesComeBeforeErrorsAndErrorsBeforeSuccess) {
  EXPECT_GT(likely_cause(SIGSEGV), likely_cause(SIGABRT));
  EXPECT_GT(likely_cause(SIGKILL), likely_cause(kExit3));
  EXPECT_GT(likely_cause(kExit3), likely_cause(kExit0));
}

TEST_F(SupervisorTest, ALostHostIsTheCulpritAndTheWorldIsAbortedAtOnce) {
  world_ = true;
  ends(0, kExit3);  // fails because of the lost host
  supervisor_.host_lost({{"there", 2, 1}, "host there was lost"}, now_);
  EXPECT_THAT(printed_, ElementsAre("host there was lost"));
  EXPECT_THAT(aborts_, ElementsAre("2: host there was lost"));
  EXPECT_EQ(supervisor_.summary(false), "; rank 0 failed after that");
  pass(499);
  EXPECT_THAT(orders_, IsEmpty());
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  ends(1, kExit3);
  supervisor_.keeper_gone({});
  EXPECT_TRUE(supervisor_.over() && !supervisor_.keeper_was_killed());
  EXPECT_EQ(supervisor_.exit_code(), 1);
}

TEST_F(SupervisorTest, RanksKilledOnOtherHostsAreNamedUnlessTheirHostIsLost) {
  job_.remote.emplace();
  for (const int rank : {2, 0, 1}) ends(rank, SIGKILL);
  pass(199);
  EXPECT_THAT(printed_, IsEmpty());
  EXPECT_THAT(orders_, IsEmpty());
  pass(1);
  EXPECT_THAT(printed_, ElementsAre("rank 2 (pid 102) was killed by signal 9 (Killed) on there"));
  EXPECT_THAT(orders_, ElementsAre("signal 15")) << "for what ranks may have left";
  supervisor_.keeper_gone({});
  EXPECT_EQ(supervisor_.exit_code(), 137);
}

TEST_F(SupervisorTest, TheLossOfTheirHostExplainsThatRanksWereKilled) {
  job_.remote.emplace();
  for (const int rank : {2, 0, 1}) ends(rank, SIGKILL);
  supervisor_.host_lost({{"there", 2, 1}, "host there was lost"}, now_);
  supervisor_.host_lost({{"here", 0, 2}, "host here was lost"}, now_);
  supervisor_.keeper_gone({});
  EXPECT_THAT(printed_, ElementsAre("host there was lost", "host here was lost"));
  EXPECT_EQ(supervisor_.exit_code(), 1);
}

TEST_F(SupervisorTest, AHostThatCannotBeUsedEndsAJobThatHasNotBegun) {
  FixedSupervisor fresh{job_, actions()};
  fresh.host_lost({{"there", 2, 1}, "host there cannot be used"}, now_);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  fresh.keeper_gone({});
  EXPECT_TRUE(fresh.over());
  EXPECT_EQ(fresh.exit_code(), 1);
  EXPECT_THAT(printed_, ElementsAre("host there cannot be used"));
  EXPECT_FALSE(fresh.may_pass());
}

TEST_F(SupervisorTest, AHostMayBeLostBeforeItIsKnownThatRanksHaveStarted) {
  FixedSupervisor fresh{job_, actions()};
  fresh.host_lost({{"there", 2, 1}, "host there was lost"}, now_);
  fresh.reported({Report::Kind::started, 0, 100}, now_);
  fresh.reported({Report::Kind::exited, 0, 100, SIGTERM}, now_);
  fresh.keeper_gone({});
  EXPECT_TRUE(fresh.over());
  EXPECT_TRUE(fresh.may_pass());
}

}  // namespace
}  // namespace anello::launch
