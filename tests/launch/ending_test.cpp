// How jobs end: exit codes, signals, kills, and that nothing is left behind.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/launch/launched.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::launch {
namespace {

// Children that are hard to find: a background child, another process group and session, an orphan.
const std::string kFamily =
    "sleep 300 & setsid sleep 300 & (setsid sh -c 'sleep 300 & exec sleep 300' & exit 0); "
    "(trap '' TERM INT HUP; sleep 300 & wait) & ";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

pid_t number_after(const std::string& text, const std::string& word) {
  return pid_t(std::stol(text.substr(text.find(word) + word.size())));
}

// Rank 1 fails, and then rank 0 writes this number of lines.
Outcome failed_before(int lines) {
  return testing::run(ranks(2, "[ $ANELLO_RANK = 1 ] && { echo first >&2; echo why >&2; exit 7; }; trap 'seq " +
                                   std::to_string(lines) + "; exit 0' TERM; while :; do sleep 0.05; done"));
}

TEST(Ending, WhatAScreenfulHasFollowedIsRepeated) {
  const Outcome outcome = failed_before(24);
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(without_crowding(outcome.err),
              ::testing::ContainsRegex("anello: the last lines of rank 1:\nanello: \\| first\nanello: \\| why\n"
                                       "anello: the job failed after [0-9.]+ s: rank 1 \\(pid [0-9]+\\) exited with "
                                       "status 7 on [^ ]+; the launcher ended rank 0\n"));
}

TEST(Ending, WhatIsStillOnTheScreenIsSaidOnce) {
  const std::string err = failed_before(10).err;
  EXPECT_THAT(err, ::testing::ContainsRegex("anello: rank 1 \\(pid [0-9]+\\) exited with status 7 on [^ ]+\n"));
  EXPECT_THAT(err, ::testing::ContainsRegex("anello: the job failed after [0-9.]+ s because of rank 1; the launcher "
                                            "ended rank 0\n"));
  EXPECT_EQ(err.find("why\n"), err.rfind("why\n")) << err;
}

TEST(Ending, MoreRanksThanCoresAreMentioned) {
  const Words words = ranks(3, "exit 0");
  Words on_one_core = {"taskset", "-c", "0"};
  on_one_core.insert(on_one_core.end(), words.begin(), words.end());
  EXPECT_EQ(testing::run(on_one_core).err, "anello: 3 ranks share 1 core, which makes them slow\n");
  EXPECT_EQ(testing::run(on_one_core, {.environment = {"ANELLO_LOG=error"}}).err, "");
}

TEST(Ending, TheFirstFailureGivesTheExitCodeAndIsNamed) {
  const Outcome outcome = testing::run(ranks(3, "[ $ANELLO_RANK = 1 ] && exit 7; exec sleep 300"));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(
      without_crowding(outcome.err),
      ::testing::MatchesRegex("anello: rank 1 \\(pid [0-9]+\\) exited with status 7 on [^ ]+\n"
                              "anello: the job failed after [0-9.]+ s because of rank 1; the launcher ended ranks 0, "
                              "2\n"));
}

TEST(Ending, ARankKilledBySignalGives128AndTheSignal) {
  const auto start = std::chrono::steady_clock::now();
  Process job(ranks(4, "echo pid $$ of $ANELLO_RANK; exec sleep 300"));
  ASSERT_TRUE(job.says("of 2\n") && job.says("of 0\n") && job.says("of 1\n") && job.says("of 3\n"));
  const pid_t victim = number_after(job.out(), "[2] pid ");
  kill(victim, SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_TRUE(contains(job.err(), "rank 2 (pid " + std::to_string(victim) + ") was killed by signal 9 (Killed)"))
      << job.err();
  EXPECT_EQ(testing::lines(without_crowding(job.err())).size(), 2u) << job.err();
  EXPECT_EQ(job.marked(), std::vector<pid_t>());
}

TEST(Ending, SurvivorsMaySayTheirOwnError) {
  undisturbed(milliseconds(100), [&] {
    const Outcome outcome =
        testing::run(ranks(2, "[ $ANELLO_RANK = 1 ] && exit 3; sleep 0.3; echo rank 1 is gone >&2; exit 5"));
    EXPECT_EQ(outcome.code, 3);
    EXPECT_TRUE(contains(outcome.err, "[0] rank 1 is gone\n")) << outcome.err;
  });
}

TEST(Ending, SurvivorsAreAskedAndThenKilled) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome =
      testing::run(ranks(3,
                         "case $ANELLO_RANK in 0) trap 'echo asked; exit 0' TERM;; 1) trap '' TERM;; 2) exit 9;; esac; "
                         "while :; do sleep 0.05; done",
                         {"--grace", "0.5"}));
  EXPECT_EQ(outcome.code, 9);
  EXPECT_GE(seconds_since(start), 1.5);
  EXPECT_TRUE(contains(outcome.out, "[0] asked\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.err, "still running, so killed: rank 1\n")) << outcome.err;
}

TEST(Ending, ARankThatHasGoneToAnotherProcessGroupEndsToo) {
  if (testing::run({"sh", "-c", "command -v python3"}).code != 0) GTEST_SKIP() << "python3 is not installed";
  const std::string leaves = "import os, time; os.setpgid(0, os.getpgid(os.getppid())); print('left', flush=True); ";
  Process job({ANELLO_PROGRAM, "run", "-n", "1", "--grace", "60", "--", "python3", "-c", leaves + "time.sleep(300)"});
  EXPECT_TRUE(job.says("[0] left\n"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
  EXPECT_FALSE(contains(job.err(), "still running")) << job.err();
}

TEST(Ending, AStoppedRankEndsToo) {
  const Outcome outcome = testing::run(ranks(2, "[ $ANELLO_RANK = 1 ] && { sleep 0.3; exit 3; }; kill -STOP $$"));
  EXPECT_EQ(outcome.code, 3);
}

TEST(Ending, ALastRankThatIsStoppedIsNamedAndEnded) {
  const Surroundings soon{.environment = {"ANELLO_SILENCE_LIMIT=500"}};
  const Outcome outcome = testing::run(ranks(3, "[ $ANELLO_RANK = 1 ] || exit 0; kill -STOP $$; exit 0"), soon);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              ::testing::ContainsRegex("anello: rank 1 \\(pid [0-9]+ on [^ ]+\\) is stopped by signal 19 \\(Stopped "
                                       "\\(signal\\)\\), and all others have "
                                       "ended; nothing has continued it for 0.5 s \\(ANELLO_SILENCE_LIMIT\\)\n"));
}

TEST(Ending, ALastRankThatHangsIsNamed) {
  Process job(ranks(2, "[ $ANELLO_RANK = 0 ] && exit 0; exec sleep 300"),
              {.environment = {"ANELLO_SILENCE_LIMIT=500"}});
  EXPECT_TRUE(job.says_error(" after the last of the others has ended\n"));
  EXPECT_THAT(job.err(), ::testing::ContainsRegex(
                             "anello: rank 1 \\(pid [0-9]+ on [^ ]+\\) still runs, (0\\.[5-9]|[1-9][0-9.]*) s "
                             "after the last"))
      << "not before half a second has passed";
  EXPECT_FALSE(job.marked().empty());
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

TEST(Ending, ARankThatEndsEarlyInGoodOrderIsNoFailure) {
  EXPECT_EQ(testing::run(ranks(2, "[ $ANELLO_RANK = 0 ] && exit 0; sleep 1.5; echo still here")).out,
            "[1] still here\n");
  EXPECT_EQ(testing::run(ranks(2, "[ $ANELLO_RANK = 0 ] && exit 0; sleep 0.3; exit 6")).code, 6);
}

TEST(Ending, WhatRanksLeaveIsEnded) {
  const Outcome outcome = testing::run(ranks(2, kFamily + "exit 0", {"--grace", "0.3"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

class EndingBySignal : public ::testing::TestWithParam<int> {};

TEST_P(EndingBySignal, ReachesAllRanksAndTheirChildren) {
  Process job(ranks(3,
                    "sh -c 'trap \"echo child heard; exit 0\" INT TERM HUP QUIT ABRT ALRM XCPU; echo child; while :; "
                    "do sleep 0.05; done' & "
                    "trap 'echo heard; wait; exit 0' INT TERM HUP QUIT ABRT ALRM XCPU; echo parent; wait",
                    {"--grace", "20"}));
  for (const std::string rank : {"[0] ", "[1] ", "[2] "})
    ASSERT_TRUE(job.says(rank + "child\n") && job.says(rank + "parent\n"));
  job.signal(GetParam());
  EXPECT_EQ(job.wait(), 128 + GetParam());
  for (const char* label :
       {"[0] heard", "[1] heard", "[2] heard", "[0] child heard", "[1] child heard", "[2] child heard"})
    EXPECT_TRUE(contains(job.out(), label)) << job.out();
  EXPECT_EQ(job.marked(), std::vector<pid_t>());
}
INSTANTIATE_TEST_SUITE_P(, EndingBySignal, ::testing::Values(SIGTERM, SIGHUP, SIGABRT, SIGALRM, SIGXCPU),
                         [](const auto& one) { return std::string(sigabbrev_np(one.param)); });

TEST(Ending, AnInterruptEndsAllAndASecondKills) {
  Process job(ranks(2, kFamily + "trap '' INT TERM; echo ready; while :; do sleep 0.05; done", {"--grace", "300"}));
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready"));
  job.signal(SIGINT);
  ASSERT_TRUE(job.says_error("signal 2 (Interrupt)"));
  std::this_thread::sleep_for(milliseconds(300));
  const auto start = std::chrono::steady_clock::now();
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 130);
  EXPECT_LT(seconds_since(start), 30);
  EXPECT_EQ(job.marked(), std::vector<pid_t>());
}

TEST(Ending, AnInterruptEndsRanksThatDoNotCare) {
  Process job(ranks(2, "echo ready; exec sleep 300"));
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready"));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 130);
}

// One rank sleeps where no signal reaches it, and two ranks wait for it. If the launcher did not abort the world, it
// would kill the two without telling them a reason. Ranks with the reason end before they are killed, unless they have
// no core.
TEST(Ending, AWorldThatIsStuckIsToldWhyBeforeItIsKilled) {
  undisturbed(milliseconds(200), [] {
    Process job(anello({"run", "-n", "3", "--grace", "3", "--", WAITER, "asleep"}));
    ASSERT_TRUE(job.says("[0] asleep\n"));
    job.signal(SIGTERM);
    EXPECT_EQ(job.wait(), 143);
    for (const std::string rank : {"[1]", "[2]"}) {
      EXPECT_TRUE(contains(job.out(), rank + " code 12, rank -1: barrier #0")) << job.out();
      EXPECT_TRUE(contains(job.err(), rank +
                                          " the launcher ended the world: signal 15 (Terminated) was passed on to all "
                                          "ranks, and 3 s have passed\n"))
          << job.err();
    }
    EXPECT_TRUE(contains(job.err(), "still running, so killed: rank 0\n")) << job.err();
    EXPECT_EQ(job.marked(), std::vector<pid_t>());
  });
}

TEST(Ending, RanksAreToldOfAFailureThatTheyCannotSee) {
  const Outcome outcome = testing::run(anello({"run", "-n", "3", "--", WAITER, "early"}));
  EXPECT_EQ(outcome.code, 3);
  for (const std::string rank : {"[1]", "[2]"}) {
    EXPECT_TRUE(contains(outcome.out, rank + " code 12, rank 0: barrier #0")) << outcome.out;
    EXPECT_TRUE(contains(outcome.err, rank + " the launcher ended the world: rank 0 (pid ")) << outcome.err;
  }
  EXPECT_TRUE(contains(outcome.err, ") exited with status 3 on ")) << outcome.err;
}

// Rank 0's failure is the cause, but ranks 1 and 2 exit with an error before rank 0 ends.
TEST(Ending, TheRankThatMadeOthersFailIsNamed) {
  const Outcome outcome = testing::run(anello({"run", "-n", "3", "--", WAITER, "gone"}));
  EXPECT_EQ(outcome.code, 5);
  EXPECT_TRUE(contains(outcome.err, "anello: rank 0 failed first: rank 0 on ")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, " left the world ")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "; because of that rank ")) << outcome.err;
}

// A rank exits before it joins. If the launcher did not report the exit, the other ranks would wait for it for the
// whole start timeout.
TEST(Ending, NobodyWaitsForARankThatExitsBeforeItJoins) {
  const Outcome outcome = testing::run(ranks(2, "[ $ANELLO_RANK = 1 ] && exit 0; exec " WAITER " early"));
  EXPECT_EQ(outcome.code, 5);
  EXPECT_TRUE(contains(outcome.err, "[0] rank 1 exited before it joined the others\n")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "anello: rank 1 failed first: rank 1 exited before")) << outcome.err;
}

class UserSignal : public ::testing::TestWithParam<int> {};

TEST_P(UserSignal, PassesAndEndsNothing) {
  Process job(ranks(2, "trap 'echo saved; exit 0' USR1 USR2; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready"));
  job.signal(GetParam());
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(contains(job.out(), "[0] saved") && contains(job.out(), "[1] saved")) << job.out();
}
INSTANTIATE_TEST_SUITE_P(, UserSignal, ::testing::Values(SIGUSR1, SIGUSR2),
                         [](const auto& one) { return std::string(sigabbrev_np(one.param)); });

// A shell without job control starts background jobs with SIGINT ignored.
TEST(Ending, AnInterruptReachesABackgroundJobOfAScript) {
  const Outcome outcome =
      testing::run({"sh", "-c",
                    ANELLO_PROGRAM " run -n 2 -- sh -c 'echo ready; exec sleep 300' > \"$0\" & job=$!; "
                                   "until grep -q '1. ready' \"$0\" && grep -q '0. ready' \"$0\"; do sleep 0.05; done; "
                                   "kill -INT $job; wait $job",
                    Scratch() / "out"});
  EXPECT_EQ(outcome.code, 130) << outcome.err;
}

TEST(Ending, AnIgnoredHangupStaysIgnored) {
  Process job(ranks(1, "echo ready; sleep 1; echo done"), {.ignore_hangup = true});
  ASSERT_TRUE(job.says("[0] ready"));
  job.signal(SIGHUP);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(contains(job.out(), "[0] done"));
}

TEST(Ending, NothingIsLeftWhenTheLauncherIsKilled) {
  Process job(ranks(4, kFamily + "echo ready; exec sleep 300"));
  for (const char* label : {"[0] ready", "[1] ready", "[2] ready", "[3] ready"}) ASSERT_TRUE(job.says(label));
  constexpr std::size_t kProcesses = std::size_t(4) * 6;
  for (int k = 0; k < 1000 && job.marked().size() < kProcesses; k++)  // some are started in the background
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(job.marked().size(), kProcesses);
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(), 137) << "who reads the output to its end knows that nothing is left";
  EXPECT_TRUE(job.none_left(milliseconds(2000)));
}

TEST(Ending, NothingIsLeftWhenTheLauncherIsKilledWhileItStarts) {
  for (int delay_ms = 0; delay_ms < 60; delay_ms += 3) {
    Process job(ranks(16, kFamily + "exec sleep 300"));
    std::this_thread::sleep_for(milliseconds(delay_ms));
    job.signal(SIGKILL);
    job.wait();
    ASSERT_TRUE(job.none_left()) << "killed after " << delay_ms << " ms";
  }
}

TEST(Ending, NothingIsLeftWhenTheKeeperIsKilled) {
  Process job(ranks(2, kFamily + "echo ready $PPID; exec sleep 300"));
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready"));
  kill(number_after(job.out(), "[0] ready "), SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_THAT(job.err(), ::testing::ContainsRegex(
                             "anello: the process that supervises all ranks \\(pid [0-9]+\\) was killed "
                             "by signal 9 \\(Killed\\); to end a job, interrupt `anello run`; all ranks are killed"));
  EXPECT_EQ(job.marked(), std::vector<pid_t>());
}

TEST(Ending, NothingIsLeftWhenALauncherInsideALauncherIsKilled) {
  Process job(
      ranks(2, "exec " ANELLO_PROGRAM " run -n 2 -- sh -c '(setsid sleep 300 &); echo inner ready; exec sleep 300'"));
  for (const char* label : {"[0] [0] inner ready", "[0] [1] inner ready", "[1] [0] inner ready", "[1] [1] inner ready"})
    ASSERT_TRUE(job.says(label));
  job.signal(SIGKILL);
  job.wait();
  EXPECT_TRUE(job.none_left());
}

TEST(Ending, TheKeeperDoesNotLookLikeALauncher) {
  Process job(ranks(1, "tr '\\0' ' ' < /proc/$PPID/cmdline; cat /proc/$PPID/comm"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_FALSE(contains(job.out(), "anello")) << job.out();
}

TEST(Ending, WrongUsageIsOneLineWithTheRemedy) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"run", "-n", "0", "--", "true"}, "1 to"},
      {{"run", "-n", "4x", "--", "true"}, "'4x'"},
      {{"run", "-n", "-1", "--", "true"}, "-n"},
      {{"run", "-n", "4"}, "no program"},
      {{"run", "-n", "4", "--"}, "no program"},
      {{"run", "--", "true"}, "-n N"},
      {{"run", "--bogus", "-n", "4", "true"}, "--bogus"},
      {{"run", "-n"}, "-n"},
      {{"run", "-n", "2", "--grace", "soon", "true"}, "--grace"},
      {{"run", "-n", "2", "--grace", "-1", "true"}, "--grace"},
      {{"run", "-n", "2", "--timeout", "0", "true"}, "--timeout"},
      {{"run", "-n", "2", "--restarts", "x", "true"}, "--restarts"},
      {{"run", "--nproc_per_host=2", "true"}, "write -N N"},
      {{"run", "-n", "2", "-max-restarts", "2", "true"}, "--restarts N"},
      {{"run", "-bogus", "2", "true"}, "--bogus"},
      {{"run", "--hostfile", "no-such-file", "true"}, "cannot read no-such-file: No such file"},
      {{"run", "--hostfile", "/", "true"}, "cannot read /: it is a folder"},
      {{"fly"}, "'fly'"},
      {{}, "no command"},
      {{"rendezvous", "--port", "70000"}, "--port"},
      {{"secret", "a", "b"}, "b"},
      {{"run", "-n", "99999999999999999999", "true"}, "-n"}};
  for (const auto& [words, part] : cases) {
    const Outcome outcome = testing::run(anello(words));
    EXPECT_EQ(outcome.code, 2) << part;
    EXPECT_EQ(testing::lines(outcome.err).size(), 1u) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, part)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Ending, TooManyRanksForTheLimitOnOpenFiles) {
  const Outcome outcome = testing::run({"sh", "-c", "ulimit -n 64; exec " ANELLO_PROGRAM " run -n 100 -- true"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(testing::lines(outcome.err).size(), 1u);
  EXPECT_TRUE(contains(outcome.err, "ulimit -n")) << outcome.err;
}

}  // namespace
}  // namespace anello::launch
