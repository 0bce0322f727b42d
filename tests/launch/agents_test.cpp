// Ranks on several hosts: their places, environment, input, output and signals.
#include <set>

#include "tests/launch/agents.hpp"
#include "tests/support/free_ports.hpp"

namespace anello::launch {
namespace {

TEST_F(Agents, RanksRunWhereTheListSays) {
  const Outcome outcome = testing::run(
      job("h1:2,me@h2:1,[fd00::3]:1",
          "echo $ANELLO_RANK on $FAKE_HOST, $ANELLO_LOCAL_RANK of $ANELLO_LOCAL_SIZE of $ANELLO_SIZE in $(pwd)"),
      around());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string in = " of 4 in " + std::filesystem::current_path().string();
  EXPECT_THAT(testing::lines(outcome.out),
              UnorderedElementsAre("[0] 0 on h1, 0 of 2" + in, "[1] 1 on h1, 1 of 2" + in,
                                   "[2] 2 on me@h2, 0 of 1" + in, "[3] 3 on fd00::3, 0 of 1" + in));
  EXPECT_EQ(without_crowding(outcome.err), "");
}

TEST_F(Agents, AWorldForms) {
  EXPECT_EQ(testing::run(anello({"run", "-H", "h1:2,h2:2", "--", WAITER, "early"}), around()).code, 3);
}

TEST_F(Agents, RanksGetTheVariablesThatAreNamed) {
  const Outcome outcome = testing::run(
      job("h1", "env", {"-x", "SHOWN", "-x", "GIVEN=a b'c"}),
      around({"SHOWN=1", "HIDDEN=1", "OMP_NUM_THREADS=3", "ANELLO_LOG=error", "LD_LIBRARY_PATH=/lib/of/mine",
              "PYTHONPATH=/py", "HOROVOD_TIMELINE=DYNAMIC", "NCCL_DEBUG=WARN", "TF_NUM_INTEROP_THREADS=3"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line : {"SHOWN=1", "GIVEN=a b'c", "OMP_NUM_THREADS=3", "ANELLO_LOG=error", "ANELLO_RANK=0",
                           "LD_LIBRARY_PATH=/lib/of/mine", "HOME=/", "PYTHONPATH=/py", "HOROVOD_TIMELINE=DYNAMIC",
                           "NCCL_DEBUG=WARN", "TF_NUM_INTEROP_THREADS=3"})
    EXPECT_THAT(outcome.out, HasSubstr(std::string("[0] ") + line + "\n"));
  EXPECT_FALSE(contains(outcome.out, "HIDDEN"));
  const Outcome more = testing::run(job("h1", "env", {"-x", "EMPTY", "-x", "GIVEN="}), around({"EMPTY=", "GIVEN=1"}));
  for (const char* line : {"[0] EMPTY=\n", "[0] GIVEN=\n"}) EXPECT_THAT(more.out, HasSubstr(line)) << more.err;
  // A shell would drop this one.
  EXPECT_THAT(testing::run(anello({"run", "-H", "h1", "-x", "FOO.BAR-1=2", "--", "env"}), around()).out,
              HasSubstr("[0] FOO.BAR-1=2\n"));
  const Outcome unset = testing::run(job("h1", "env", {"-x", "NOWHERE_SET"}), around());
  EXPECT_EQ(unset.code, 2);
  EXPECT_THAT(unset.err, HasSubstr("-x NOWHERE_SET: it is not set here"));
}

TEST_F(Agents, TheSecretIsInNoCommandLineAndNoEnvironment) {
  Process running(job("h1,h2", "cat <&$ANELLO_SECRET_FD; echo; echo ready; sleep 300"), around());
  ASSERT_TRUE(running.says("[0] ready") && running.says("[1] ready")) << running.err();
  std::set<std::string> secrets;
  for (const std::string& line : testing::lines(running.out()))
    if (!contains(line, "ready")) secrets.insert(line.substr(4));
  ASSERT_EQ(secrets.size(), 1u) << running.out();
  EXPECT_EQ(secrets.begin()->size(), 64u);
  for (const pid_t pid : running.marked())
    for (const char* file : {"cmdline", "environ"})
      EXPECT_FALSE(contains(bytes_of(text("/proc/", pid, "/", file)), *secrets.begin())) << pid << " " << file;
}

TEST_F(Agents, AFailureIsNamedWithItsHost) {
  const Outcome outcome =
      testing::run(job("h1:2,h2:2", "[ $ANELLO_RANK = 3 ] && { echo dying >&2; exit 7; }; exec sleep 300"), around());
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, HasSubstr("[3] dying\n"));
  EXPECT_THAT(outcome.err, ::testing::ContainsRegex("anello: rank 3 \\(pid [0-9]+\\) exited with status 7 on h2\n"));
}

TEST_F(Agents, ALastRankThatIsStoppedIsNamedWithItsHost) {
  const Outcome outcome =
      testing::run(job("h1,h2", "[ $ANELLO_RANK = 1 ] || exit 0; kill -STOP $$"), around({"ANELLO_SILENCE_LIMIT=500"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, ::testing::ContainsRegex("rank 1 \\(pid [0-9]+ on h2\\) is stopped"));
}

TEST_F(Agents, AProgramThatIsMissingIsNamedWithItsHost) {
  const Outcome outcome = testing::run(anello({"run", "-H", "h1", "--", "/nowhere/program"}), around());
  EXPECT_EQ(outcome.code, 127);
  EXPECT_THAT(outcome.err, HasSubstr("program not found on h1: '/nowhere/program'"));
}

TEST_F(Agents, MoreRanksThanCoresOnAHostAreMentioned) {
  const std::string count = std::to_string(std::thread::hardware_concurrency() + 1);
  const std::string err = testing::run(job("h1:" + count + ",h2:" + count, "true"), around()).err;
  EXPECT_THAT(err, ::testing::ContainsRegex("anello: " + count +
                                            " ranks share .* cores? on h[12] \\(and too few on 1 "
                                            "other\\), which makes them slow\n"));
}

TEST_F(Agents, ASignalReachesAllRanks) {
  Process running(job("h1,h2", "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"), around());
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up")) << running.err();
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
  EXPECT_THAT(running.out(), ::testing::AllOf(HasSubstr("[0] asked"), HasSubstr("[1] asked")));
}

TEST_F(Agents, StandardInputGoesToRank0) {
  Surroundings surroundings = around();
  std::string input;
  for (int i = 0; i < 100000; i++) input += std::to_string(i) + "\n";
  surroundings.input = input;
  const Outcome outcome = testing::run(job("h1,h2", "[ $ANELLO_RANK = 0 ] && wc -c; true"), surroundings);
  EXPECT_EQ(outcome.out, text("[0] ", input.size(), "\n"));
}

TEST_F(Agents, MuchOutputArrivesWholeAndInOrder) {
  const Outcome outcome = testing::run(job("h1:2,h2", "seq 1 60000; echo end >&2"), around());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<int> next(3, 1);
  for (const std::string& line : testing::lines(outcome.out)) {
    ASSERT_EQ(line.substr(4), std::to_string(next.at(std::size_t(line[1] - '0'))++));
  }
  EXPECT_THAT(next, ElementsAre(60001, 60001, 60001));
  EXPECT_THAT(testing::lines(outcome.err), UnorderedElementsAre("[0] end", "[1] end", "[2] end"));
}

TEST_F(Agents, AStoppedLauncherLosesNothing) {
  // The output is more than the window holds, so the rank waits. The launcher is stopped for longer than a connection
  // to a dead host lives.
  expect_all_lines_of_a_stopped_launcher(200000, milliseconds(6000));
}

// The rank ends while its window and the pipe behind the window are full; a full window does not block the end of a
// rank.
TEST_F(Agents, ALauncherThatReadsLateGetsTheOutputOfARankThatHasEnded) {
  expect_all_lines_of_a_stopped_launcher(20000, milliseconds(4000));  // longer than an agent waits for the last bytes
}

TEST_F(Agents, ThisHostNeedsNoSsh) {
  const Outcome outcome =
      testing::run(job("localhost:2", "echo $ANELLO_RANK $ANELLO_RENDEZVOUS", {"--ssh", "/nowhere/ssh"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[1] 1 127.0.0.1:"));
}

TEST_F(Agents, OneCommandANodeMakesOneWorld) {
  const std::string secret = scratch_ / "secret";
  ASSERT_EQ(testing::run(anello({"secret", secret})).code, 0);
  const std::string port = std::to_string(consecutive_free_ports(1));
  const auto node = [&](const std::string& number) {
    return anello({"run", "-n", "2", "--nnodes", "2", "--node-rank", number, "--rendezvous", "127.0.0.1:" + port, "--",
                   "sh", "-c", "echo $ANELLO_RANK of $ANELLO_SIZE; exec " WAITER " early"});
  };
  const Surroundings with_secret{.environment = {"ANELLO_SECRET_FILE=" + secret}};
  Process second(node("1"), with_secret), first(node("0"), with_secret);
  EXPECT_EQ(first.wait(), 3) << first.err();
  EXPECT_NE(second.wait(), 0) << second.err();
  EXPECT_THAT(first.out(), ::testing::AllOf(HasSubstr("[0] 0 of 4\n"), HasSubstr("[1] 1 of 4\n")));
  EXPECT_THAT(second.out(), ::testing::AllOf(HasSubstr("[2] 2 of 4\n"), HasSubstr("[3] 3 of 4\n")));
  EXPECT_THAT(second.out(), HasSubstr("rank 0 (pid")) << "the launchers' ranks are one world";
}

TEST_F(Agents, WrongUsageIsNamed) {
  const auto run = [&](Words words, const std::string& variable) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--", "true"});
    return testing::run(anello(words), around({variable}));
  };
  const auto says = [&](const Words& words, const std::string& variable = "HOME=/nowhere") {
    const Outcome outcome = run(words, variable);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(says({}), HasSubstr("the number of ranks is missing"));
  EXPECT_THAT(says({"-n", "3", "-H", "h1,h2"}), HasSubstr("3 ranks do not fit"));
  EXPECT_THAT(says({"-H", "h1", "--hostfile", "f"}), HasSubstr("give one of them"));
  EXPECT_THAT(says({"-n", "2", "--nnodes", "2"}), HasSubstr("belong together"));
  EXPECT_THAT(says({"-n", "2", "--nnodes", "2", "--node-rank", "2", "--rendezvous", "h1:9"}), HasSubstr("--node-rank"));
  const Words elsewhere = {"-n", "2", "--nnodes", "2", "--node-rank", "1", "--rendezvous", "10.1.1.1:9", "--dry-run"};
  const std::string home = "XDG_CONFIG_HOME=" + (scratch_ / "config").string();
  EXPECT_THAT(says(elsewhere, home), HasSubstr("needs a secret"));
  ASSERT_EQ(testing::run(anello({"secret"}), {.environment = {home}}).code, 0);
  EXPECT_EQ(run(elsewhere, home).code, 0) << "the one in the user's home";
  EXPECT_THAT(says({"-n", "1", "-x", "1A=2"}),
              HasSubstr("-x '1A=2': a name begins with a letter or _; write -x NAME or -x NAME=value"));
  EXPECT_THAT(says({"-n", "1", "-x", "=2"}), HasSubstr("-x '=2': the name is missing; write -x NAME"));
  EXPECT_THAT(says({"-n", "1", "-x", "A B=2"}), HasSubstr("-x 'A B=2': a name has no spaces"));
  EXPECT_THAT(says({"-n", "1", "-x", "A\xc2\xa0=2"}), HasSubstr("no characters that are not ASCII"));
  for (const std::string name : {"RANK", "WORLD_SIZE", "ANELLO_SIZE", "HOROVOD_LOCAL_RANK", "ANELLO_JOB"})
    EXPECT_THAT(says({"-n", "1", "-x", name + "=7"}),
                HasSubstr("-x " + name + ": `anello run` itself sets this variable for its ranks; leave it out"));
}

}  // namespace
}  // namespace anello::launch
