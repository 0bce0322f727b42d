// Ranks write and read through a real launcher.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/launch/launched.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::launch {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<char, std::vector<std::string>> by_rank(const std::string& text) {
  std::map<char, std::vector<std::string>> out;
  for (const std::string& line : testing::lines(text)) {
    EXPECT_TRUE(line.size() >= 4 && line[0] == '[' && line.substr(2, 2) == "] ") << "torn: " << line.substr(0, 100);
    if (line.size() >= 4) out[line[1]].push_back(line.substr(4));
  }
  return out;
}

void expect_untorn(const Outcome& outcome, int count, int longest) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  auto ranks = by_rank(outcome.out);
  ASSERT_EQ(ranks.size(), 4u);
  for (int rank = 0; rank < 4; rank++) {
    const auto& lines = ranks[char('0' + rank)];
    ASSERT_EQ(lines.size(), std::size_t(count));
    for (long i = 0; i < count; i++) {
      const long length = (i * 7919 + rank * 104729) % longest;
      ASSERT_EQ(lines[std::size_t(i)], std::to_string(i) + ":" + std::to_string(length) + ":" +
                                           std::string(std::size_t(length), char('a' + rank)));
    }
  }
}

TEST(Output, LinesOfFourRanksAreNeverTorn) {
  expect_untorn(testing::run(anello({"run", "-n", "4", "--", TALKER, "2000", "200", "97"})), 2000, 200);
}

TEST(Output, NeitherAreLinesLongerThanAPipe) {
  undisturbed(std::chrono::seconds(1), [] {  // otherwise a line is broken so that waiting ranks can go on
    expect_untorn(testing::run(anello({"run", "-n", "4", "--", TALKER, "40", "300000", "5000"})), 40, 300000);
  });
}

TEST(Output, TheLastLineIsKeptThoughNothingEndsIt) {
  const Outcome outcome = testing::run(ranks(2, "printf 'first\\nlast %s' $ANELLO_RANK"));
  EXPECT_EQ(by_rank(outcome.out),
            (std::map<char, std::vector<std::string>>{{'0', {"first", "last 0"}}, {'1', {"first", "last 1"}}}));
  EXPECT_TRUE(outcome.out.ends_with("\n"));
}

TEST(Output, ErrorsGoToStandardError) {
  const Outcome outcome = testing::run(ranks(1, "echo out; echo err >&2; printf last >&2"));
  EXPECT_EQ(outcome.out, "[0] out\n");
  EXPECT_EQ(outcome.err, "[0] err\n[0] last\n");
}

TEST(Output, TheOrderBetweenOutputAndErrorsIsKeptWhereTheyGoToOnePlace) {
  std::string script = "exec 2>&1; exec " ANELLO_PROGRAM " run -n 1 -- sh -c '";
  std::string expected;
  for (int i = 0; i < 20; i++) {
    script += "echo o" + std::to_string(i) + "; echo e" + std::to_string(i) + " >&2; ";
    expected += "[0] o" + std::to_string(i) + "\n[0] e" + std::to_string(i) + "\n";
  }
  EXPECT_EQ(testing::run({"sh", "-c", script + "'"}).out, expected);
}

TEST(Output, AFileForEachRankAndStream) {
  const auto folder = std::filesystem::temp_directory_path() / ("anello-output." + std::to_string(getpid())) / "deep";
  const Outcome outcome =
      testing::run(ranks(2, "echo out $ANELLO_RANK; printf err >&2", {"--output", folder.string()}));
  EXPECT_TRUE(contains(outcome.out, "[0] out 0\n") && contains(outcome.out, "[1] out 1\n")) << outcome.out;
  EXPECT_EQ(content(folder / "rank.0.out"), "out 0\n");
  EXPECT_EQ(content(folder / "rank.1.out"), "out 1\n");
  EXPECT_EQ(content(folder / "rank.1.err"), "err");
  std::filesystem::remove_all(folder.parent_path());
}

TEST(Output, FilesOfEarlierRunsAreKept) {
  const Scratch scratch;
  const std::filesystem::path folder = scratch / "logs";
  for (const std::string word : {"one", "two", "three"}) {
    const Outcome outcome = testing::run(ranks(1, "echo " + word, {"--output", folder.string()}));
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(contains(outcome.err, folder.string() + " has the output of an earlier run"), word != "one");
  }
  EXPECT_EQ(content(folder / "rank.0.out"), "one\n");
  EXPECT_EQ(content(folder / "2" / "rank.0.out"), "two\n");
  EXPECT_EQ(content(folder / "3" / "rank.0.out"), "three\n");
}

TEST(Output, LabelsMayBeLeftOut) {
  EXPECT_EQ(testing::run(ranks(1, "echo '{\"a\": 1}'", {"--no-prefix"})).out, "{\"a\": 1}\n");
  EXPECT_EQ(testing::run(ranks(1, "printf '{}'", {"--no-prefix"})).out, "{}") << "nothing is added";
}

TEST(Output, LinesMayHaveTheTime) {
  const Outcome outcome = testing::run(ranks(1, "echo x; exit 3", {"--timestamp"}));
  const std::string time = "20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9][0-9][0-9]Z ";
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex(time + "\\[0\\] x\n"));
  EXPECT_THAT(testing::lines(outcome.err).at(0), ::testing::MatchesRegex(time + "anello: rank 0 .*"));
  const std::vector<std::string> joins{ANELLO_PROGRAM, "run", "-n", "1", "--timestamp", WAITER, "early"};
  const Outcome logs = testing::run(joins, {.environment = {"ANELLO_LOG=info"}});
  EXPECT_THAT(testing::lines(logs.err), ::testing::Contains(::testing::MatchesRegex(time + "anello: rendezvous: .*")));
}

TEST(Output, AFolderThatCannotBeMadeIsNamed) {
  const Outcome outcome = testing::run(ranks(1, "echo no", {"--output", "/proc/nowhere"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(testing::lines(outcome.err).size(), 1u) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "/proc/nowhere")) << outcome.err;
}

TEST(Output, AFullDeviceEndsTheJobAndSaysSo) {
  const Outcome outcome =
      testing::run({"sh", "-c", ANELLO_PROGRAM " run -n 2 -- sh -c 'echo x; sleep 300' > /dev/full"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "No space left")) << outcome.err;
}

TEST(Output, AClosedPipeEndsTheJobQuietly) {
  Process job(ranks(3, "echo started; while :; do echo more; sleep 0.01; done"));
  ASSERT_TRUE(job.says("[0] started"));
  job.close_output();
  EXPECT_EQ(job.wait(), 141);
  EXPECT_EQ(without_crowding(job.err()), "");
  EXPECT_EQ(job.marked(), std::vector<pid_t>());
}

TEST(Output, AClosedPipeIsNoticedThoughNobodyWrites) {
  Process job(ranks(2, "echo started; exec sleep 300"));
  ASSERT_TRUE(job.says("[0] started") && job.says("[1] started"));
  job.close_output();
  EXPECT_EQ(job.wait(), 141);
}

TEST(Output, ASlowReaderLosesNothing) {
  Process job(anello({"run", "-n", "4", "--", TALKER, "3000", "2000", "4096"}));
  std::this_thread::sleep_for(milliseconds(2500));  // if the pipe were not full, the ranks would be done by now
  const int code = job.wait();
  expect_untorn({code, job.out(), job.err()}, 3000, 2000);
}

// A launcher whose standard output is a full pipe without a reader.
Words before_full_pipe(const std::string& options, const std::string& pipe) {
  const std::string script =
      "mkfifo \"$0\"; sleep 300 < \"$0\" & head -c 65536 /dev/zero > \"$0\"; exec " ANELLO_PROGRAM " run -n 2 " +
      options + " -- sh -c 'echo ready >&2; exec yes' > \"$0\"";
  return {"sh", "-c", script, pipe};
}

TEST(Output, ThatNobodyReadsIsLostWhenTheTimeOfTheJobIsOver) {
  const Scratch scratch;
  Process job(before_full_pipe("--timeout 0.2 --grace 0.2", scratch / "pipe"));
  EXPECT_TRUE(job.says_error("timed out after"));
  EXPECT_TRUE(testing::in_state(job.pid(), 'Z'));
}

TEST(Output, ThatNobodyReadsIsLostAtTheSecondSignal) {
  const Scratch scratch;
  Process job(before_full_pipe("--grace 300", scratch / "pipe"));
  ASSERT_TRUE(job.says_error("[0] ready") && job.says_error("[1] ready"));
  std::this_thread::sleep_for(milliseconds(300));  // until the launcher does not read any more
  job.signal(SIGTERM);
  for (int k = 0; k < 30000 && job.marked().size() > 2; k++) std::this_thread::sleep_for(milliseconds(10));
  ASSERT_EQ(job.marked().size(), 2u) << "the launcher, and what does not read";
  ASSERT_TRUE(testing::alive(job.pid()));
  job.signal(SIGTERM);
  EXPECT_TRUE(testing::in_state(job.pid(), 'Z'));
}

TEST(Output, NothingIsSpentWhileNothingHappens) {
  Process job(ranks(2, "echo started; exec sleep 300"));
  ASSERT_TRUE(job.says("[0] started") && job.says("[1] started"));
  const auto ticks = [&] {
    std::string stat = content("/proc/" + std::to_string(job.pid()) + "/stat"), word;
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    long used = 0;
    for (int field = 3; field <= 15 && fields >> word; field++)
      if (field >= 14) used += std::stol(word);
    return used;
  };
  std::this_thread::sleep_for(milliseconds(300));
  const long before = ticks();
  std::this_thread::sleep_for(milliseconds(2000));
  EXPECT_LE(ticks() - before, 2) << "hundredths of a second in two seconds";
}

TEST(Input, GoesToRankZeroOnly) {
  const Outcome outcome = testing::run(ranks(3, "cat; readlink /proc/self/fd/0"), {.input = "one\ntwo\n"});
  auto lines = by_rank(outcome.out);
  EXPECT_EQ(lines['0'].size(), 3u);
  EXPECT_EQ(lines['0'][1], "two");
  EXPECT_EQ(lines['1'], std::vector<std::string>{"/dev/null"});
  EXPECT_EQ(lines['2'], std::vector<std::string>{"/dev/null"});
}

TEST(Input, MayBeClosedOrNeverEnd) {
  EXPECT_EQ(testing::run({"sh", "-c", ANELLO_PROGRAM " run -n 2 -- sh -c 'cat; echo done' <&-"}).code, 0);
  Process endless(ranks(2, "echo done"));  // its standard input stays open
  EXPECT_EQ(endless.wait(), 0);
}

TEST(Output, StandardDescriptorsMayBeClosed) {
  EXPECT_EQ(
      testing::run({"sh", "-c", ANELLO_PROGRAM " run -n 2 -- sh -c 'echo x; echo y >&2; exit 4' <&- >&- 2>&-"}).code,
      4);
}

}  // namespace
}  // namespace anello::launch
