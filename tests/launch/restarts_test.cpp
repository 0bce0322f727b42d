// Jobs that are started again, and jobs with a time limit.
#include <csignal>

#include "tests/launch/launched.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::launch {
namespace {

TEST(Restarts, AJobIsStartedAgainUntilItSucceeds) {
  const Outcome outcome = testing::run(
      ranks(2, "echo try $ANELLO_RESTART of $ANELLO_JOB; [ $ANELLO_RANK = 1 ] && [ $ANELLO_RESTART != 2 ] && exit 9; :",
            {"--restarts", "5"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line : {"[0] try 0 of ", "[0] try 1 of ", "[0] try 2 of "})
    EXPECT_EQ(count(outcome.out, line), 1u) << outcome.out;
  EXPECT_EQ(count(outcome.err, ") exited with status 9 on "), 2u) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "restart 1 of 5 in 1 s\n") && contains(outcome.err, "restart 2 of 5 in 2 s\n"));
}

TEST(Restarts, WorldsFormAgain) {
  const Outcome outcome = testing::run(anello({"run", "-n", "2", "--restarts", "1", "--", WAITER, "gone"}));
  EXPECT_EQ(count(outcome.err, "failed first: rank 0"), 2u) << outcome.err;
}

TEST(Restarts, HaveAnEnd) {
  const Outcome outcome = testing::run(ranks(1, "exit 9", {"--restarts", "1"}));
  EXPECT_EQ(outcome.code, 9);
  EXPECT_EQ(count(outcome.err, "the job failed after"), 2u) << outcome.err;
}

TEST(Restarts, DoNotRepeatMistakes) {
  for (const char* script : {"exit 2", "exit 126", "exit 127"})
    EXPECT_FALSE(contains(testing::run(ranks(1, script, {"--restarts", "3"})).err, "restart 1")) << script;
  const Outcome absent = testing::run(anello({"run", "-n", "2", "--restarts", "3", "--", "no-such-program"}));
  EXPECT_EQ(absent.code, 127);
  EXPECT_FALSE(contains(absent.err, "restart 1"));
}

TEST(Restarts, EndWithASignal) {
  Process running(ranks(1, "echo ready; exec sleep 300", {"--restarts", "3"}));
  ASSERT_TRUE(running.says("ready"));
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
  EXPECT_FALSE(contains(running.err(), "restart 1")) << running.err();
  Process pausing(ranks(1, "exit 9", {"--restarts", "9"}));
  ASSERT_TRUE(pausing.says_error("restart 4 of 9 in 8 s"));
  pausing.signal(SIGINT);
  EXPECT_EQ(pausing.wait(), 130);
}

TEST(Restarts, KeepTheOutputOfEveryTry) {
  const Scratch scratch;
  const std::filesystem::path folder = scratch / "logs";
  testing::run(ranks(1, "exit 9", {"--restarts", "1", "--output", folder.string()}));
  EXPECT_TRUE(std::filesystem::exists(folder / "rank.0.out") && std::filesystem::exists(folder / "2" / "rank.0.out"));
}

TEST(Timeout, EndsTheJobAsAFailure) {
  const Outcome outcome = testing::run(ranks(2, "exec sleep 300", {"--timeout", "3", "--restarts", "3"}));
  EXPECT_EQ(outcome.code, 124);
  EXPECT_TRUE(contains(outcome.err, "anello: the job is ended: timed out after 3 s (--timeout)\n")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "; the launcher ended ranks 0, 1\n")) << outcome.err;
}

// The job waits for 1, 2 and 4 s before its restarts. The next wait, 8 s, would not fit into the limit.
TEST(Timeout, IncludesAllRestarts) {
  undisturbed(milliseconds(500), [&] {
    const Outcome outcome = testing::run(ranks(1, "exit 9", {"--timeout", "14", "--restarts", "100"}));
    EXPECT_EQ(outcome.code, 9);
    EXPECT_TRUE(contains(outcome.err, "not started again, because")) << outcome.err;
  });
}

TEST(DryRun, SaysWhatWouldRunAndStartsNothing) {
  const Scratch scratch;
  const Outcome outcome = testing::run(ranks(2, "touch " + (scratch / "file").string(), {"--dry-run"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch / "file"));
  EXPECT_TRUE(contains(outcome.out, "each rank runs: sh -c 'touch ")) << outcome.out;
  for (const char* part : {" ANELLO_SIZE=2 ", " WORLD_SIZE=2 ",
                           ": ANELLO_RANK=1 ANELLO_LOCAL_RANK=1 RANK=1 LOCAL_RANK=1 "
                           "HOROVOD_RANK=1 HOROVOD_LOCAL_RANK=1\n"})
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
}

TEST(Verbose, SaysWhatRunsAndHowLong) {
  const Outcome outcome = testing::run(ranks(1, "exit 0", {"--verbose"}));
  EXPECT_TRUE(contains(outcome.err, "rank 0 on ") && contains(outcome.err, "; no rank failed\n")) << outcome.err;
}

}  // namespace
}  // namespace anello::launch
