// The supervisor of an elastic job receives the reports of ranks, which name the process that has ended their world.
#include "tests/launch/elastic_supervised.hpp"

namespace anello::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(ElasticSupervisorTest, TheProcessesOfAHostEndWhenTheOthersReportAFailureThere) {
  supervise({.min = 1, .first = 4, .max_restarts = 0, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
  view_.generation = 1;
  all_train({0, 1, 2, 3});
  orders_now();
  supervisor_->received({.rank = 0, .culprit = 2, .message = "old", .generation = 0}, now_);
  EXPECT_THAT(orders_now(), IsEmpty());
  supervisor_->received({.rank = 0, .culprit = 2, .message = "rank 2 has failed", .generation = 1}, now_);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 3"));
  ends(3, SIGKILL);
  ends(2, kStatus1);
  pass(0);
  EXPECT_THAT(orders_now(), IsEmpty());
  EXPECT_FALSE(supervisor_->failed());
}

// The report comes before the supervisor has looked at the world that the report is about, or when the next world has
// begun.
TEST_F(ElasticSupervisorTest, AReportOfAShortWorldCounts) {
  for (const std::uint32_t newest : {1, 2}) {
    view_ = {};
    supervise({.min = 1, .first = 4, .max_restarts = 0, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
    view_ = {.begun = true, .members = {{0, 0, 5}, {1, 1, 6}, {2, 2, 7}, {3, 3, 8}}};
    pass(100);
    orders_now();
    view_.ranks[1] = {{3, 8}, {2, 7}, {0, 5}, {1, 6}};
    view_.generation = newest;
    view_.members = {{0, 0, 5}, {1, 1, 6}, {3, 2, 8}};
    supervisor_->received({.rank = 0, .culprit = 1, .message = "rank 1 has failed", .generation = 1}, now_);
    EXPECT_THAT(orders_now(), ElementsAre("kill rank 3")) << newest;
  }
}

// The report names a process whose place another process has taken.
TEST_F(ElasticSupervisorTest, AReportOfAProcessThatHasBeenReplacedDoesNotCount) {
  supervise({.min = 1, .first = 4, .max_restarts = 9, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
  view_ = {.generation = 1, .begun = true, .members = {{0, 0, 5}, {1, 1, 6}, {2, 2, 7}, {3, 3, 8}}};
  view_.ranks[1] = {{0, 5}, {1, 6}, {2, 7}, {3, 8}};
  pass(100);
  orders_now();
  ends(3, kStatus1);
  ends(2, SIGKILL);
  pass(1000);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 2", "start rank 2", "start rank 3"));
  supervisor_->received({.rank = 0, .culprit = 3, .message = "rank 3 has failed", .generation = 1}, now_);
  EXPECT_THAT(orders_now(), IsEmpty());
}

TEST_F(ElasticSupervisorTest, ALateReportEndsNoProcessThatHasFinished) {
  supervise({.min = 1, .first = 4, .max_restarts = 9, .on_failure = ElasticJob::OnFailure::host}, 2, 2);
  view_ = {.generation = 1, .begun = true, .members = {{0, 0, 5}, {1, 1, 6}, {2, 2, 7}, {3, 3, 8}}};
  view_.ranks[1] = {{0, 5}, {1, 6}, {2, 7}, {3, 8}};
  pass(100);
  orders_now();
  view_.generation = 2;
  view_.finished = true;
  view_.members.clear();
  supervisor_->received({.rank = 0, .culprit = 3, .message = "rank 3 has failed", .generation = 1}, now_);
  EXPECT_THAT(orders_now(), IsEmpty()) << "process 2 may still write its checkpoint";
}

TEST_F(ElasticSupervisorTest, AHostAlsoRestsIfTheOthersReportTheFailureBeforeTheProcessExits) {
  const Cooldown cooldown{milliseconds(20000), milliseconds(40000)};
  supervise({.min = 1, .first = 4, .max_restarts = 9, .on_failure = ElasticJob::OnFailure::host, .cooldown = cooldown},
            2, 2);
  view_.generation = 1;
  all_train({0, 1, 2, 3});
  orders_now();
  supervisor_->received({.rank = 0, .culprit = 2, .message = "rank 2 has failed", .generation = 1}, now_);
  ends(3, SIGKILL);
  EXPECT_THAT(orders_now(), ElementsAre("kill rank 3"));
  pass(5000);
  EXPECT_THAT(orders_now(), IsEmpty()) << "place 3 rests already";
  ends(2, kStatus1);
  pass(19500);
  EXPECT_THAT(orders_now(), IsEmpty()) << "both places rest since process 2 has exited";
  pass(1000);
  EXPECT_THAT(orders_now(), ElementsAre("start rank 2", "start rank 3"));
}

TEST_F(ElasticSupervisorTest, AProcessThatEndedAWorldMayExitAfterTheOthersHaveFinishedInTheNext) {
  supervise({.min = 1, .first = 3, .max_restarts = 9}, 3);
  view_ = {.generation = 1, .begun = true, .members = {{0, 0, 5}, {1, 1, 6}, {2, 2, 7}}};
  view_.ranks[1] = {{0, 5}, {1, 6}, {2, 7}};
  pass(100);
  view_.generation = 2;
  view_.finished = true;
  view_.members.clear();
  supervisor_->received({.rank = 0, .culprit = 1, .message = "rank 1 has failed", .generation = 1}, now_);
  ends(0, kSuccess);
  ends(2, kSuccess);
  ends(1, kStatus1);
  pass(0);
  EXPECT_EQ(supervisor_->exit_code(), 0);
}

}  // namespace
}  // namespace anello::launch
