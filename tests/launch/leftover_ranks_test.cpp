// Ranks that are left when the others have ended, because they still run or are stopped.
#include <sys/wait.h>

#include "tests/launch/supervised.hpp"

namespace anello::launch {
namespace {

Report stopped(int rank, int signal) {
  return {Report::Kind::stopped, rank, 100 + rank, W_STOPCODE(signal)};
}

TEST_F(SupervisorTest, TheLastRankIsNamedWhileItRunsAndIsNotEnded) {
  job_.silence_limit = milliseconds(10000);
  ends(0, kExit0);
  pass(60000);
  EXPECT_THAT(printed_, IsEmpty()) << "two of three go on";
  ends(1, kExit0);
  pass(9999);
  EXPECT_THAT(printed_, IsEmpty());
  pass(1);
  EXPECT_THAT(printed_,
              ElementsAre("rank 2 (pid 102 on there) still runs, 10 s after the last of the others has ended"));
  pass(29999);
  EXPECT_EQ(printed_.size(), 1u);
  pass(1);
  EXPECT_EQ(printed_.back(), "rank 2 (pid 102 on there) still runs, 40 s after the last of the others has ended");
  EXPECT_THAT(orders_, IsEmpty());
  ends(2, kExit0);
  EXPECT_EQ(supervisor_.exit_code(), 0);
  EXPECT_FALSE(supervisor_.failed());
}

TEST_F(SupervisorTest, RanksThatAreStoppedWhenAllOthersAreDoneEndTheJob) {
  job_.silence_limit = milliseconds(10000);
  supervisor_.reported(stopped(1, SIGSTOP), now_);
  pass(60000);
  EXPECT_THAT(printed_, IsEmpty()) << "the others of its world see that";
  ends(0, kExit0);
  pass(5000);
  supervisor_.reported(stopped(2, SIGSTOP), now_);
  pass(5000);
  supervisor_.reported({Report::Kind::continued, 1, 101}, now_);
  pass(5000);
  supervisor_.reported(stopped(1, SIGSTOP), now_);
  pass(9999);
  EXPECT_THAT(orders_, IsEmpty()) << "it went on meanwhile";
  pass(1);
  EXPECT_THAT(orders_, ElementsAre("signal 15"));
  EXPECT_THAT(printed_,
              ElementsAre("ranks 1, 2 (first pid 101 on here) are stopped by signal 19 (Stopped (signal)), and all "
                          "others have ended; nothing has continued them for 10 s (ANELLO_SILENCE_LIMIT)"));
  ends(1, SIGTERM);
  ends(2, SIGTERM);
  EXPECT_EQ(supervisor_.exit_code(), 1);
  EXPECT_EQ(supervisor_.culprit(), 1);
  EXPECT_TRUE(supervisor_.failed() && supervisor_.may_pass());
}

TEST_F(SupervisorTest, TheSignalsThatStoppedRanksAreNamed) {
  job_.silence_limit = milliseconds(10000);
  ends(1, kExit0);
  supervisor_.reported(stopped(2, SIGTTIN), now_);
  supervisor_.reported(stopped(0, SIGTSTP), now_);
  pass(10000);
  EXPECT_THAT(printed_,
              ElementsAre(HasSubstr(" are stopped by signal 20 (Stopped), signal 21 (Stopped (tty input)), ")));
}

TEST_F(SupervisorTest, WithoutALimitOfSilenceNobodyIsNamed) {
  ends(0, kExit0);
  ends(1, kExit0);
  supervisor_.reported(stopped(2, SIGSTOP), now_);
  EXPECT_FALSE(supervisor_.next_tick());
}

}  // namespace
}  // namespace anello::launch
