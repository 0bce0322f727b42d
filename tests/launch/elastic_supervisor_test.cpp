// The supervisor of an elastic job: after which failures the job goes on, which failures end it, and what is printed.
#include "tests/launch/elastic_supervised.hpp"

namespace anello::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ElasticSupervisorTest, StartsTheFirstPlacesAndLeavesTheOthersFree) {
  supervise({.min = 1, .first = 2, .max_restarts = 3});
  EXPECT_THAT(orders_now(), ElementsAre("start rank 0", "start rank 1"));
  pass(5000);
  EXPECT_THAT(orders_now(), IsEmpty());
}

TEST_F(ElasticSupervisorTest, AProcessThatFailsIsReplacedAtItsPlace) {
  supervise({.min = 1, .first = 3, .max_restarts = 3});
  all_train({0, 1, 2});
  orders_now();
  ends(1, SIGKILL);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 1"));
  EXPECT_THAT(printed_now(), ElementsAre("process 1 (pid 101) was killed by signal 9 (Killed) on here",
                                         "process 1 is started again (restart 1 of 3)"));
  EXPECT_FALSE(supervisor_->over());
}

TEST_F(ElasticSupervisorTest, AProcessThatFailsSoonAgainRests) {
  supervise({.min = 1, .first = 3, .max_restarts = 9});
  all_train({0, 1, 2});
  ends(1, SIGKILL);
  pass(0);
  all_train({0, 1, 2});
  ends(1, SIGKILL);
  orders_now();
  pass(900);
  EXPECT_THAT(orders_now(), IsEmpty()) << "not even at another place";
  pass(200);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 1"));
}

TEST_F(ElasticSupervisorTest, AProcessThatFailsTwiceBeforeItTrainsIsNotStartedAgain) {
  supervise({.min = 2, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  for (int failure = 0; failure < 3; failure++) {
    ends(1, kStatus1);
    orders_now();
    pass(60000);
    EXPECT_EQ(orders_now().size(), failure < 2 ? 1u : 0u) << failure;
    all_train({0, 2});
  }
  EXPECT_THAT(printed_, Contains("process 1 is not started again, because it has failed twice before it trained"));
  EXPECT_FALSE(supervisor_->failed()) << "two go on";
}

// A process has another model than the others, so it fails each time, when it has a rank in a world that begins.
TEST_F(ElasticSupervisorTest, AProcessThatFailsTwiceWhenItsWorldBeginsIsNotStartedAgain) {
  supervise({.min = 2, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  fail_early_ = {1};
  for (int failure = 0; failure < 3; failure++) {
    ends(1, kStatus1);
    orders_now();
    pass(60000);
    EXPECT_EQ(orders_now().size(), failure < 2 ? 1u : 0u) << failure;
    all_train({0, 1, 2});
  }
}

TEST_F(ElasticSupervisorTest, AProgramThatCannotStartEndsTheJob) {
  supervise({.min = 2, .first = 2, .max_restarts = 9}, 2);
  ends(0, kStatus127);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 127);
  EXPECT_THAT(printed_now(), Contains("only 1 process runs or can be started, and --min-np is 2"));
  EXPECT_THAT(orders_now(), Contains("signal 15"));
  EXPECT_FALSE(supervisor_->may_pass()) << "it would fail in the same way";
}

TEST_F(ElasticSupervisorTest, WithoutRestartsTheOthersGoOnUntilTheyAreTooFew) {
  supervise({.min = 2, .first = 3, .max_restarts = 0}, 3);
  all_train({0, 1, 2});
  ends(0, SIGKILL);
  pass(1000);
  EXPECT_FALSE(supervisor_->failed());
  ends(1, kStatus1);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 1);
  EXPECT_EQ(supervisor_->culprit(), 1);
  EXPECT_TRUE(supervisor_->may_pass());
}

TEST_F(ElasticSupervisorTest, TheLastProcessWithTheStateEndsTheJob) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  all_train({0, 1});
  ends(0, SIGKILL);
  pass(0);
  view_.members = {{1, 1}, {0, -1}};  // the new one waits
  ends(1, SIGSEGV);
  pass(0);
  EXPECT_THAT(printed_, Contains("no process is left that had the state of the training"));
  EXPECT_EQ(supervisor_->exit_code(), 139);
}

TEST_F(ElasticSupervisorTest, SuccessIsThatTheTrainingHasEnded) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  all_train({0, 1});
  orders_now();
  view_ = {.begun = true, .finished = true, .members = {}};
  ends(0, kSuccess);
  ends(1, kSuccess);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("signal 15")) << "for the processes that ranks have started";
  EXPECT_EQ(supervisor_->exit_code(), 0);
  EXPECT_FALSE(supervisor_->failed());
  EXPECT_THAT(printed_, IsEmpty());
}

TEST_F(ElasticSupervisorTest, TheMembershipMayReceiveTheEndOfTheTrainingLater) {
  supervise({.min = 1, .first = 1, .max_restarts = 9}, 1);
  all_train({0});
  ends(0, kSuccess);
  pass(500);
  EXPECT_FALSE(supervisor_->failed());
  view_ = {.begun = true, .finished = true, .members = {}};
  pass(100);
  EXPECT_EQ(supervisor_->exit_code(), 0);
  EXPECT_THAT(printed_, IsEmpty());
}

TEST_F(ElasticSupervisorTest, AProcessThatLeavesEarlyIsNotReplaced) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 4);
  all_train({0, 1, 2});
  orders_now();
  ends(1, kSuccess);
  pass(5000);
  EXPECT_THAT(orders_now(), IsEmpty());
  EXPECT_THAT(printed_now(), ElementsAre("process 1 (pid 101) exited with status 0 on here before the training had "
                                         "ended, so it is not replaced"));
  EXPECT_FALSE(supervisor_->failed());
}

TEST_F(ElasticSupervisorTest, ZeroFromAllWithoutATrainingIsNoSuccess) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  ends(0, kSuccess);
  ends(1, kSuccess);
  pass(2000);
  EXPECT_EQ(supervisor_->exit_code(), 1);
  EXPECT_THAT(printed_.back(), HasSubstr("none has finished a training; the program must use anello::elastic"));
}

TEST_F(ElasticSupervisorTest, AFailureAfterTheTrainingIsReported) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  all_train({0, 1});
  orders_now();
  view_ = {.begun = true, .finished = true, .members = {}};
  ends(0, SIGSEGV);
  ends(1, kSuccess);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 139);
  EXPECT_THAT(orders_now(), ElementsAre("signal 15")) << "and it is not started again";
}

TEST_F(ElasticSupervisorTest, AStoppedProcessThatTheMembershipGaveUpIsKilledAndReplaced) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  supervisor_->reported({Report::Kind::stopped, 1, 101, (SIGSTOP << 8) | 0x7f}, now_);
  pass(1000);
  EXPECT_THAT(orders_now(), IsEmpty()) << "the membership decides";
  all_train({0, 2});
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 1"));
  ends(1, SIGKILL);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 1"));
}

TEST_F(ElasticSupervisorTest, AStoppedProcessThatTheOthersFinishedWithoutIsNoFailure) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  supervisor_->reported({Report::Kind::stopped, 1, 101, (SIGSTOP << 8) | 0x7f}, now_);
  view_ = {.begun = true, .finished = true, .members = {}};
  ends(0, kSuccess);
  ends(2, kSuccess);
  pass(100);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 1"));
  ends(1, SIGKILL);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 0);
  EXPECT_FALSE(supervisor_->failed());
}

TEST_F(ElasticSupervisorTest, AStoppedProcessForWhichTheNextWorldWaitsIsKilledAtOnce) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  supervisor_->reported({Report::Kind::stopped, 1, 101, (SIGSTOP << 8) | 0x7f}, now_);
  view_.members = {{0, 0}, {1, 1, -1, true}, {2, 2}};
  pass(100);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 1"));
  pass(1000);
  EXPECT_THAT(orders_now(), IsEmpty()) << "once";
}

TEST_F(ElasticSupervisorTest, AProcessWithoutAPlaceHasTheGraceToEnd) {
  job_.grace = milliseconds(3000);
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  all_train({0, 2});
  pass(2800);
  EXPECT_THAT(orders_now(), IsEmpty());
  pass(300);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 1"));
}

TEST_F(ElasticSupervisorTest, OnFailureOfAHostItsOtherProcessesEndToo) {
  supervise({.min = 1, .first = 4, .max_restarts = 9, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
  all_train({0, 1, 2, 3});
  orders_now();
  ends(2, kStatus1);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 3"));
}

// A process has received the state, but the membership does not have its report yet that it trains.
TEST_F(ElasticSupervisorTest, AProcessWithARankMayHaveTheState) {
  supervise({.min = 1, .first = 2, .max_restarts = 0}, 2);
  fail_early_ = {1};
  all_train({0, 1});
  ends(0, SIGKILL);
  pass(1000);
  EXPECT_FALSE(supervisor_->failed());
  EXPECT_THAT(printed_now(), ::testing::Not(Contains("no process is left that had the state of the training")));
}

// An example is a process with another model in a job of a few steps. Between two looks of the supervisor, the others
// have made a world without this process, and have finished.
TEST_F(ElasticSupervisorTest, AProcessWithoutARankInTheLastWorldMayExitAfterTheOthersHaveFinished) {
  for (const bool has_rank : {false, true}) {
    view_ = {};
    supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
    view_ = {.generation = 1, .begun = true, .members = {{0, 0, 5}, {1, 1, 6}, {2, 2, 7}}};
    pass(100);
    view_ = {.generation = 2, .begun = true, .finished = true, .members = {}};
    view_.ranks[2] = {{0, 5}, {2, 7}};
    if (has_rank) view_.ranks[2].push_back({1, 6});
    ends(1, kStatus1);
    ends(0, kSuccess);
    ends(2, kSuccess);
    pass(0);
    EXPECT_EQ(supervisor_->exit_code(), has_rank ? 1 : 0);
  }
}

TEST_F(ElasticSupervisorTest, AProcessThatFailedMayExitAfterTheOthersHaveFinished) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  all_train({0, 2});  // process 1 has left them, and still runs
  view_ = {.begun = true, .finished = true, .members = {}};
  ends(0, kSuccess);
  ends(2, kSuccess);
  ends(1, kStatus1);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 0);
  EXPECT_FALSE(supervisor_->failed());
}

TEST_F(ElasticSupervisorTest, AHostThatFailsBeforeTheFirstWorldIsLeftOut) {
  supervise({.min = 2, .first = 4, .max_restarts = 0, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
  orders_now();
  ends(2, kStatus1);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 3"));
  ends(3, SIGKILL);
  all_train({0, 1});
  pass(60000);
  EXPECT_FALSE(supervisor_->failed());
  EXPECT_THAT(orders_now(), IsEmpty());
}

TEST_F(ElasticSupervisorTest, TheFailureOfAllEndsTheJob) {
  supervise({.min = 2, .first = 4, .max_restarts = 0, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
  all_train({0, 1, 2, 3});
  for (const int place : {0, 1, 2, 3}) ends(place, kStatus1);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 1);
  EXPECT_TRUE(supervisor_->failed());
}

TEST_F(ElasticSupervisorTest, OnFailureTheJobEnds) {
  supervise({.min = 1, .first = 4, .max_restarts = 9, .on_failure = ElasticJob::OnFailure::job}, 2, 2);
  all_train({0, 1, 2, 3});
  orders_now();
  ends(2, kStatus1);
  EXPECT_THAT(orders_now(), ElementsAre("signal 15"));
  EXPECT_EQ(supervisor_->exit_code(), 1);
}

TEST_F(ElasticSupervisorTest, ProcessesOfALostHostAreStartedElsewhere) {
  supervise({.min = 2, .first = 4, .max_restarts = 9}, 4, 2);
  all_train({0, 1, 2, 3});
  orders_now();
  view_.members = {{0, 0}, {1, 1}};
  supervisor_->host_lost({{"half", 2, 2}, "host half was lost"}, now_);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 4", "start rank 5"));
  EXPECT_THAT(printed_now(), ElementsAre("host half was lost", "process 4 is started instead (restart 1 of 9)",
                                         "process 5 is started instead (restart 2 of 9)"));
}

TEST_F(ElasticSupervisorTest, ASignalEndsAllAndStartsNothing) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  all_train({0, 1});
  orders_now();
  supervisor_->signalled(SIGTERM, now_);
  ends(0, SIGTERM);
  ends(1, SIGTERM);
  pass(1000);
  EXPECT_THAT(orders_now(), ElementsAre("signal 15"));
  EXPECT_EQ(supervisor_->exit_code(), 143);
  EXPECT_FALSE(supervisor_->may_pass());
}

}  // namespace
}  // namespace anello::launch
