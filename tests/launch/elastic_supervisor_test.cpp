// The supervisor of an elastic job, with a membership that the test writes: which failures are made good, which end the
// job, and what is printed.
#include "rendezvous/launch/processes/elastic_supervisor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSuccess = 0, kStatus1 = 1 << 8, kStatus127 = 127 << 8;  // as waitpid has them

class ElasticSupervisorTest : public ::testing::Test {
 protected:
  // Places on two hosts; the first `first` of them get a process at the beginning.
  void supervise(ElasticJob limits, int here = 4, int there = 0) {
    job_.command = {"train"};
    job_.size = here + there;
    job_.layout = {{"here", 0, here}};
    if (there > 0) job_.layout.push_back({"there", here, there});
    job_.elastic = limits;
    supervisor_ = std::make_unique<ElasticSupervisor>(job_, actions(), [this] { return view_; });
    pass(0);
  }
  Supervisor::Actions actions() {
    return {.order =
                [this](const Order& order) {
                  const char* const names[] = {"start", "start rank", "kill rank", "signal", "kill"};
                  const bool one = order.kind == Order::Kind::start_rank || order.kind == Order::Kind::kill_rank;
                  orders_.push_back(text(names[int(order.kind)], " ", one ? order.rank : order.value));
                  if (order.kind == Order::Kind::start_rank)
                    supervisor_->reported({Report::Kind::started, order.rank, pid_of(order.rank)}, now_);
                },
            .abort = [](int, const std::string&) { return false; },
            .print = [this](const std::string& sentence) { printed_.push_back(sentence); },
            .retire = [this](int place) { orders_.push_back(text("retire ", place)); }};
  }
  static int pid_of(int place) { return 100 + place; }
  void pass(int time_ms) {
    for (const auto until = now_ + milliseconds(time_ms);; now_ = std::min(until, *supervisor_->next_tick())) {
      while (supervisor_->next_tick() && *supervisor_->next_tick() <= now_) supervisor_->tick(now_);
      if (now_ == until || !supervisor_->next_tick()) return void(now_ = until);
    }
  }
  void ends(int place, int status) {
    std::erase_if(view_.members, [&](const auto& member) { return member.place == place; });
    supervisor_->reported({Report::Kind::exited, place, pid_of(place), status}, now_);
  }
  void all_train(std::initializer_list<int> places) {
    view_.begun = true;
    view_.members.clear();
    for (const int place : places) view_.members.push_back({place, place});
    pass(100);
  }
  std::vector<std::string> orders_now() { return std::exchange(orders_, {}); }
  std::vector<std::string> printed_now() { return std::exchange(printed_, {}); }

  Job job_;
  MembershipView view_;
  Clock::time_point now_ = Clock::now();
  std::vector<std::string> orders_, printed_;
  std::unique_ptr<ElasticSupervisor> supervisor_;
};

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
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
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

TEST_F(ElasticSupervisorTest, AStoppedProcessForWhichTheNextWorldWaitsIsKilledAtOnce) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  all_train({0, 1, 2});
  orders_now();
  supervisor_->reported({Report::Kind::stopped, 1, 101, (SIGSTOP << 8) | 0x7f}, now_);
  view_.members = {{0, 0}, {1, 1, true}, {2, 2}};
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
  view_.finished = true;
  EXPECT_EQ(why([&] { supervisor_->resize(3, now_); }), "the job is ending");
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
