// The supervisor of an elastic job: requests of the user, and hosts and processes that come, go or fail in part.
#include <anello/error.hpp>
#include <cerrno>

#include "tests/launch/elastic_supervised.hpp"

namespace anello::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ElasticSupervisorTest, ResizeStartsProcessesThatAreNoRestarts) {
  supervise({.min = 1, .first = 2, .max_restarts = 1}, 4);
  all_train({0, 1});
  orders_now();
  EXPECT_EQ(supervisor_->resize(4, now_), "the job goes from 2 to 4 processes");
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2", "start rank 3"));
  EXPECT_THAT(printed_, IsEmpty());
  all_train({0, 1, 2, 3});
  ends(3, SIGKILL);
  pass(0);
  EXPECT_THAT(printed_now(), Contains("process 3 is started again (restart 1 of 1)"));
}

TEST_F(ElasticSupervisorTest, ResizeAsksTheHighestPlacesToLeave) {
  supervise({.min = 1, .first = 4, .max_restarts = 1}, 4);
  all_train({0, 1, 2, 3});
  orders_now();
  supervisor_->resize(2, now_);
  EXPECT_THAT(orders_now(), ElementsAre("retire 3", "retire 2"));
  ends(3, kSuccess);
  ends(2, kStatus1);
  pass(60000);
  EXPECT_THAT(orders_now(), IsEmpty()) << "they are not replaced";
  EXPECT_THAT(printed_now(),
              ElementsAre("process 3 has left, as it was asked to", "process 2 has left, as it was asked to"));
  supervisor_->resize(3, now_);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2"));
}

TEST_F(ElasticSupervisorTest, APlaceThatWasLeftDoesNotReplaceOneThatRests) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 4);
  all_train({0, 1, 2});
  supervisor_->resize(4, now_);
  pass(0);
  all_train({0, 1, 2, 3});
  supervisor_->resize(3, now_);
  ends(3, kSuccess);
  for (int failure = 0; failure < 2; failure++) {
    all_train({0, 1, 2});
    orders_now();
    ends(1, SIGKILL);
    pass(0);
  }
  EXPECT_THAT(orders_now(), IsEmpty()) << "process 1 rests";
  pass(1100);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 1"));
}

TEST_F(ElasticSupervisorTest, ResizeAndRemoveRefuseWhatIsImpossible) {
  supervise({.min = 2, .first = 3, .max_restarts = 1}, 4);
  all_train({0, 1, 2});
  const auto why = [](const auto& request) {
    try {
      request();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(why([&] { supervisor_->resize(1, now_); }),
            "1 process is not possible, only 2 (--min-np) to 4 (its places, by --max-np)");
  EXPECT_THAT(why([&] { supervisor_->resize(5, now_); }), HasSubstr("5 processes are not possible"));
  EXPECT_THAT(why([&] { supervisor_->remove({0, 1}, now_); }), HasSubstr("only 1 process would be left"));
  EXPECT_EQ(supervisor_->remove({3}, now_), "no process is started there any more");
  EXPECT_THAT(why([&] { supervisor_->remove({3}, now_); }), HasSubstr("this place is closed already, or will be when"));
  EXPECT_EQ(supervisor_->remove({2}, now_), "1 process leaves at the next commit");
  EXPECT_THAT(why([&] { supervisor_->resize(3, now_); }), HasSubstr("only 2 (--min-np) to 2 (its places"));
  view_.finished = true;
  EXPECT_EQ(why([&] { supervisor_->resize(3, now_); }), "the job is ending");
}

TEST_F(ElasticSupervisorTest, ResizeKeepsToTheMaximumWhenHostsAreFound) {
  supervise({.min = 1, .first = 2, .max = 3, .max_restarts = 1}, 4);
  all_train({0, 1});
  EXPECT_THROW(supervisor_->resize(4, now_), Error);
  EXPECT_EQ(supervisor_->resize(3, now_), "the job goes from 2 to 3 processes");
}

TEST_F(ElasticSupervisorTest, HostsThatComeOrGoKeepToTheNumberThatTheUserHasSet) {
  supervise({.min = 1, .first = 4, .max_restarts = 9}, 4);
  all_train({0, 1, 2, 3});
  supervisor_->resize(2, now_);
  for (const int place : {3, 2}) ends(place, kSuccess);
  orders_now();
  job_.layout.push_back({"there", 4, 4});
  job_.size = 8;
  supervisor_->grow(now_);
  pass(1000);
  EXPECT_THAT(orders_now(), IsEmpty());
  supervisor_->leave_places({"here", 0, 4}, now_);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("retire 0", "retire 1", "start rank 4", "start rank 5"))
      << "at once, because they must get the state from those that leave";
  EXPECT_THAT(printed_now(), ::testing::Not(Contains(HasSubstr("restart"))));
}

TEST_F(ElasticSupervisorTest, AProcessThatReceivesSigtermIsNoFailureAndIsNotReplacedThere) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  view_.members[1].retires = true;
  pass(100);
  EXPECT_THAT(printed_now(), ElementsAre("process 1 was asked by a signal to leave, and does so at the next commit"));
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("process 1 on here: leaves, pid 101\n"));
  ends(1, SIGKILL);
  pass(60000);
  EXPECT_THAT(printed_now(), ElementsAre("process 1 has left after a signal, and its place stays empty"));
  EXPECT_THAT(orders_now(), IsEmpty());
  EXPECT_FALSE(supervisor_->failed());
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("2 of 2 processes run"));
}

TEST_F(ElasticSupervisorTest, AfterSigtermAFreePlaceOfAnotherHostIsUsed) {
  supervise({.min = 1, .first = 2, .max = 3, .max_restarts = 0}, 2, 1);
  all_train({0, 1});
  orders_now();
  view_.members[0].retires = true;
  pass(100);
  view_.released = {{0, 7}};
  ends(0, kSuccess);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2"));
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("0 of 0 restarts used"));
}

TEST_F(ElasticSupervisorTest, AProcessOfTheLobbyThatReceivesSigtermHasAPlaceElsewhereToo) {
  supervise({.min = 1, .first = 2, .max = 3, .max_restarts = 0}, 2, 1);
  view_ = {.begun = true, .members = {{0, 0, 7}, {1, -1, 8}}};
  pass(100);
  orders_now();
  view_.released = {{1, 8}};  // comes so early that the launcher never sees the process retire
  ends(1, kSuccess);
  pass(0);
  EXPECT_THAT(printed_now(), ElementsAre("process 1 has left after a signal, and its place stays empty"));
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2"));
}

TEST_F(ElasticSupervisorTest, ThePredecessorOfAProcessMayHaveBeenReleased) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  view_ = {.begun = true, .members = {{0, 0, 7}, {1, 1, 9}}, .released = {{1, 5}}};
  supervisor_->resize(1, now_);
  view_.released = {{1, 9}};
  ends(1, kSuccess);
  supervisor_->resize(2, now_);
  pass(0);
  view_.members.push_back({1, 1, 12});
  pass(100);
  ends(1, SIGKILL);
  pass(0);
  EXPECT_THAT(printed_now(), Contains("process 1 is started again (restart 1 of 9)"));
}

TEST_F(ElasticSupervisorTest, AProcessThatReceivesSigtermMayFinishBeforeItLeaves) {
  supervise({.min = 1, .first = 1, .max_restarts = 9}, 1, 1);
  all_train({0});
  view_.members[0].retires = true;
  pass(100);
  orders_now();
  ends(0, kSuccess);
  pass(500);
  EXPECT_THAT(orders_now(), IsEmpty());
  view_ = {.begun = true, .finished = true, .members = {}};  // the membership has received it
  pass(100);
  EXPECT_FALSE(supervisor_->failed());
  EXPECT_EQ(supervisor_->exit_code(), 0);
}

TEST_F(ElasticSupervisorTest, AProcessThatEndsWithoutItsReleaseHasLeftAfterTheSignal) {
  supervise({.min = 1, .first = 2, .max_restarts = 0}, 2, 1);
  all_train({0, 1});
  orders_now();
  view_.members[0].retires = true;
  pass(100);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2")) << "it may have to get the state from process 0";
  printed_now();
  ends(0, kSuccess);
  pass(1500);
  EXPECT_THAT(printed_now(), ElementsAre("process 0 has left after a signal, and its place stays empty"));
  EXPECT_THAT(orders_now(), IsEmpty());
}

TEST_F(ElasticSupervisorTest, ProcessesThatAllLeaveAfterASignalBeforeTheyTrainDidNotLackACall) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  view_.members = {{0, -1, 7}, {1, -1, 8}};
  pass(100);
  view_.released = {{0, 7}, {1, 8}};
  for (const int place : {0, 1}) ends(place, kSuccess);
  pass(2000);
  EXPECT_EQ(supervisor_->exit_code(), 1);
  EXPECT_EQ(printed_.back(),
            "all processes have ended, some of them after a signal that asked them to leave, and none has finished a "
            "training");
}

TEST_F(ElasticSupervisorTest, AfterSigtermNoFreePlaceOfTheSameHostIsUsed) {
  supervise({.min = 1, .first = 3, .max = 4, .max_restarts = 9}, 4, 1);
  all_train({0, 1, 2});
  orders_now();
  view_.members[1].retires = true;
  pass(100);
  printed_now();
  ends(1, kSuccess);
  pass(1500);
  EXPECT_THAT(printed_now(), ElementsAre("process 1 has left after a signal, and the free places of here stay empty"));
  EXPECT_THAT(orders_now(), ElementsAre("start rank 4"));
  ends(0, SIGKILL);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 0")) << "process 0 has received no signal";
}

TEST_F(ElasticSupervisorTest, TheLimitOfChangesEndsTheJob) {
  supervise({.min = 1, .first = 2, .max_restarts = 9, .reset_limit = 1}, 2);
  view_.worlds = 2;
  all_train({0, 1});
  EXPECT_FALSE(supervisor_->failed());
  view_.worlds = 3;
  pass(100);
  EXPECT_EQ(printed_now().back(), "the processes of the job have changed 2 times, and --reset-limit is 1");
  EXPECT_EQ(supervisor_->exit_code(), 1);
}

TEST_F(ElasticSupervisorTest, AHostRestsAfterAFailureIfTheUserSaysHowLong) {
  supervise({.min = 1,
             .first = 4,
             .max_restarts = 9,
             .on_failure = ElasticJob::OnFailure::host,
             .cooldown = Cooldown{milliseconds(5000), milliseconds(9000)}},
            2, 2);
  all_train({0, 1, 2, 3});
  ends(2, kStatus1);
  ends(3, SIGKILL);
  orders_now();
  pass(4900);
  EXPECT_THAT(orders_now(), IsEmpty());
  pass(200);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2", "start rank 3"));
}

TEST_F(ElasticSupervisorTest, APlaceThatIsRemovedStaysEmpty) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  EXPECT_EQ(supervisor_->remove({1}, now_), "1 process leaves at the next commit");
  EXPECT_THAT(orders_now(), ElementsAre("retire 1"));
  ends(1, kSuccess);
  pass(60000);
  EXPECT_THAT(orders_now(), IsEmpty());
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("2 of 2 processes run (--min-np 1, at most 3)"));
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("process 1 on here: closed\n"));
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("process 2 on here: rank 2, pid 102\n"));
}

TEST_F(ElasticSupervisorTest, AProcessThatHasNotJoinedCannotBeAsked) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  orders_now();
  supervisor_->resize(1, now_);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 1"));
}

TEST_F(ElasticSupervisorTest, AnotherProcessMayTakeLongToJoinAfterItsPredecessor) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  view_ = {.begun = true, .members = {{0, 0, 7}, {1, 1, 8}}};
  pass(100);
  supervisor_->reported({Report::Kind::exited, 1, 101, SIGKILL}, now_);  // the server has not noticed it yet
  pass(200);
  EXPECT_THAT(orders_now(), Contains("start rank 1"));
  view_.members = {{0, 0, 7}};
  pass(60000);
  EXPECT_THAT(orders_now(), IsEmpty()) << "the process that has not joined yet is not taken for one that is cut off";
  view_.members = {{0, 0, 7}, {1, 1, 9}};
  pass(100);
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("process 1 on here: rank 1, pid 101, start 2\n"));
}

TEST_F(ElasticSupervisorTest, AHostWithoutTheProgramDoesNotEndATraining) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2, 2);
  all_train({0, 1});
  orders_now();
  awaited_ = true;
  supervisor_->resize(4, now_);
  pass(0);
  for (const int place : {2, 3}) supervisor_->reported({Report::Kind::not_started, place, -1, ENOENT}, now_);
  pass(5000);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2", "start rank 3"));
  EXPECT_THAT(printed_now(), Contains(HasSubstr("program not found on there: 'train' is not in PATH")));
  EXPECT_FALSE(supervisor_->failed());
  EXPECT_THAT(supervisor_->status(now_), HasSubstr("process 3 on there: closed\n"));
}

TEST_F(ElasticSupervisorTest, ProcessesThatAreEndedWithTheirHostHaveNotFailed) {
  supervise({.min = 3, .first = 3, .max_restarts = 0, .on_failure = ElasticJob::OnFailure::host}, 3);
  all_train({0, 1, 2});
  ends(1, kStatus1);
  ends(0, SIGKILL);
  ends(2, SIGKILL);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 1);
  EXPECT_EQ(supervisor_->culprit(), 1);
}

TEST_F(ElasticSupervisorTest, RemoveDoesNotEndTheJob) {
  supervise({.min = 3, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  ends(1, SIGKILL);
  pass(0);
  ends(1, SIGKILL);  // now it rests
  EXPECT_THROW(supervisor_->remove({1}, now_), Error);
  pass(5000);
  EXPECT_FALSE(supervisor_->failed());
}

TEST_F(ElasticSupervisorTest, AResizeThatIsTakenBackAllowsNoMoreRestarts) {
  supervise({.min = 1, .first = 2, .max_restarts = 0}, 4);
  all_train({0, 1});
  supervisor_->resize(4, now_);
  supervisor_->resize(2, now_);
  orders_now();
  ends(1, SIGKILL);
  pass(1000);
  EXPECT_THAT(orders_now(), IsEmpty());
}

TEST_F(ElasticSupervisorTest, TheEndOfTheTrainingDoesNotWaitForAHostThatIsAwaited) {
  supervise({.min = 1, .first = 1, .max_restarts = 9}, 1, 1);
  all_train({0});
  awaited_ = true;
  supervisor_->resize(2, now_);
  pass(0);
  EXPECT_THAT(orders_now(), Contains("start rank 1"));
  view_ = {.begun = true, .finished = true, .members = {}};
  ends(0, kSuccess);
  pass(0);
  EXPECT_THAT(orders_now(), ElementsAre("signal 15"));
  EXPECT_EQ(supervisor_->exit_code(), 0);
}

TEST_F(ElasticSupervisorTest, TheLossOfAllHostsIsNoFaultOfTheProgram) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 2);
  supervisor_->host_lost({{"here", 0, 2}, "host here was lost"}, now_);
  pass(0);
  EXPECT_THAT(printed_now(),
              ElementsAre("host here was lost", "only 0 processes run or can be started, and --min-np is 1"));
  EXPECT_EQ(supervisor_->exit_code(), 1);
  EXPECT_TRUE(supervisor_->may_pass());
}

}  // namespace
}  // namespace anello::launch
