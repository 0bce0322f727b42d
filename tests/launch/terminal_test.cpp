// A launcher on a terminal.
#include <cctype>
#include <csignal>

#include "tests/launch/launched.hpp"
#include "tests/support/scratch.hpp"

namespace anello::launch {
namespace {

const Surroundings kOnTerminal{.environment = {"TERM=xterm", "NO_COLOR=1"}, .terminal_columns = 60};

TEST(Terminal, RankZeroLearnsItsWidthAndNobodyElse) {
  const Outcome outcome = testing::run(ranks(2, "echo width $ANELLO_TTY."), kOnTerminal);
  EXPECT_TRUE(contains(outcome.out, "[0] width 55.")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "[1] width .")) << outcome.out;
}

TEST(Terminal, LabelsHaveColoursUnlessThatIsUnwanted) {
  Surroundings surroundings = kOnTerminal;
  surroundings.environment = {"TERM=xterm", "NO_COLOR"};
  EXPECT_TRUE(contains(testing::run(ranks(2, "echo x"), surroundings).out, "\033[32m[1]\033[0m x"));
  EXPECT_TRUE(contains(testing::run(ranks(2, "echo x"), kOnTerminal).out, "[1] x"));
}

TEST(Terminal, AProgressBarIsSeenWhileItMoves) {
  const Scratch scratch;
  Surroundings surroundings = kOnTerminal;
  surroundings.environment.push_back("FOLDER=" + scratch.path().string());
  Process job(ranks(2,
                    "until_there() { until [ -e \"$FOLDER/$1\" ]; do sleep 0.02; done; }; "
                    "if [ $ANELLO_RANK = 0 ]; then printf '25%%\\r'; until_there on; printf '50%%\\r'; "
                    "until_there end; echo done; else until_there begun; echo between; fi"),
              surroundings);
  ASSERT_TRUE(job.says("[0] 25%"));
  scratch.put("begun", "");
  ASSERT_TRUE(job.says("[1] between"));
  scratch.put("on", "");
  ASSERT_TRUE(job.says("[0] 50%"));
  EXPECT_FALSE(contains(job.out(), "done"));
  scratch.put("end", "");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(contains(job.out(), "\r\033[K[1] between\r\n[0] 25%")) << job.out();
  EXPECT_TRUE(contains(job.out(), "\r[0] 50%\033[K")) << job.out();
  EXPECT_TRUE(contains(job.out(), "\r\033[K[0] done\r\n")) << job.out();
}

TEST(Terminal, WhatIsTypedGoesToRankZero) {
  Process job(ranks(2, "[ $ANELLO_RANK = 0 ] || exit 0; printf 'name? '; read name; echo hello $name; cat; echo end"),
              kOnTerminal);
  ASSERT_TRUE(job.says("[0] name? "));
  job.type("anello\n");
  ASSERT_TRUE(job.says("[0] hello anello"));
  job.type("\004");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(contains(job.out(), "[0] end")) << job.out();
}

TEST(Terminal, CtrlCEndsAll) {
  Process job(ranks(2, "echo ready; exec sleep 300"), kOnTerminal);
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready"));
  job.type("\003");
  EXPECT_EQ(job.wait(), 130);
  EXPECT_EQ(job.marked(), std::vector<pid_t>());
}

TEST(Terminal, CtrlCEndsWhatRankZeroReadsSoThatAPromptEnds) {
  Process job(ranks(2, "[ $ANELLO_RANK = 0 ] || exec sleep 300; trap '' INT; echo ready; cat; echo the input ended",
                    {"--grace", "300"}),
              kOnTerminal);
  ASSERT_TRUE(job.says("[0] ready"));
  job.type("\003");
  EXPECT_TRUE(job.says("[0] the input ended")) << job.out();
  EXPECT_EQ(job.wait(), 130);
}

// A program at a prompt must receive the signal before the end of its input: otherwise the signal comes while Python
// exits.
TEST(Terminal, CtrlCAtAPromptOfPythonLeavesNoTraceback) {
  if (testing::run({"sh", "-c", "command -v python3"}).code != 0) GTEST_SKIP() << "python3 is not installed";
  for (int i = 0; i < 5; i++) {
    const std::string script = "import os, threading; print('pid', os.getpid(), 'ready')";
    Process job(anello({"run", "-n", "1", "--", "python3", "-i", "-c", script}), kOnTerminal);
    ASSERT_TRUE(job.says("ready") && job.says(">>>")) << job.out();
    // A signal between the prompt and the read is noticed only after the read. Python behaves like this without a
    // launcher too.
    const std::string out = job.out();
    const std::size_t pid = out.rfind("pid ", out.find(" ready")) + 4;  // others may say something before
    ASSERT_TRUE(pid < out.size() && std::isdigit(out[pid])) << out;
    ASSERT_TRUE(testing::in_state(pid_t(std::stol(out.substr(pid))), 'S')) << out;
    job.type("\003");
    EXPECT_EQ(job.wait(), 130);
    EXPECT_TRUE(contains(job.out(), "KeyboardInterrupt")) << job.out();
    EXPECT_FALSE(contains(job.out(), "Exception ignored") || contains(job.out(), "Traceback")) << job.out();
  }
}

TEST(Terminal, ALauncherInTheBackgroundIsNotStoppedByItsInput) {
  Surroundings surroundings = kOnTerminal;
  surroundings.background = true;
  Process job(ranks(2, "echo ready; sleep 1; echo done"), surroundings);
  ASSERT_TRUE(job.says("[0] ready"));
  job.type("typed to the shell\n");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(contains(job.out(), "[0] done") && contains(job.out(), "[1] done")) << job.out();
}

TEST(Terminal, CtrlZStopsRanksToo) {
  Surroundings surroundings = kOnTerminal;
  surroundings.background = true;  // so that its process group can be continued by another process
  Process job(ranks(1, "echo pid $$ launcher $(awk '/PPid/ {print $2}' /proc/$PPID/status).; exec sleep 300"),
              surroundings);
  ASSERT_TRUE(job.says("."));
  const pid_t launcher = pid_t(std::stol(job.out().substr(job.out().find("launcher ") + 9)));
  const pid_t rank = pid_t(std::stol(job.out().substr(job.out().find("pid ") + 4)));
  kill(launcher, SIGTSTP);
  EXPECT_TRUE(testing::in_state(rank, 'T'));
  EXPECT_TRUE(testing::in_state(launcher, 'T'));
  kill(launcher, SIGCONT);
  EXPECT_TRUE(testing::in_state(rank, 'S'));
  kill(launcher, SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

}  // namespace
}  // namespace anello::launch
