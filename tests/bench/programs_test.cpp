// The benchmark programs as real processes under the launcher.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace anello::bench {
namespace {

using anello::testing::lines;
using anello::testing::Outcome;
using anello::testing::run;
using ::testing::AllOf;
using ::testing::HasSubstr;

Outcome launch(std::vector<std::string> command) {
  command.insert(command.begin(), {ANELLO_PROGRAM, "run", "-n", "2", "--"});
  return run(command);
}

void expect_rows(const Outcome& outcome, std::size_t rows, const std::string& prefix = "[0] ") {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto all = lines(outcome.out);
  EXPECT_EQ(std::size_t(std::ranges::count_if(all, [&](const auto& l) { return l.starts_with(prefix + " "); })), rows)
      << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(prefix + "# wrong values: 0 OK"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("[1]")));
}

#if defined BENCH_OPENMPI || defined BENCH_MPICH
// MPI's launchers add no prefix to the lines.
void expect_mpi_rows(std::vector<std::string> command) {
  command.insert(command.end(), {"allreduce", "-s", "4,1K,64K", "-d", "double", "-o", "max", "-n", "3", "-w", "1"});
  const Outcome outcome = run(command);
  expect_rows(outcome, 3, "");
  EXPECT_THAT(outcome.out, HasSubstr("\"world\":2"));
}
#endif

TEST(Programs, OursMeasuresBetweenProcesses) {
  expect_rows(launch({BENCH, "allreduce", "-b", "4", "-e", "64K", "-f", "128", "-n", "3", "-w", "1"}), 3);
}

// A call sends 2 times 64 KiB and headers, out of place and in place. Other programs may use the loopback interface,
// too, so the counts may be higher.
TEST(Programs, TheBytesOfACallOverLoopbackAreCounted) {
  const Outcome outcome = run({"env", "ANELLO_TRANSPORT=tcp", ANELLO_PROGRAM, "run", "-n", "2", "--", BENCH,
                               "allreduce", "--loopback", "-s", "64K", "-n", "20"});
  expect_rows(outcome, 1);
  const std::string text = outcome.out.substr(std::min(outcome.out.find("# loopback: "), outcome.out.size()));
  std::istringstream words(text);
  std::string word;
  double apart = 0, within = 0;
  words >> word >> word >> apart >> within;
  EXPECT_GT(apart, 110'000) << outcome.out;
  EXPECT_GT(within, 110'000) << outcome.out;
  EXPECT_THAT(text, HasSubstr(" bytes a call\n[0]         65536 "));
  EXPECT_THAT(launch({BENCH, "allreduce", "-s", "4", "-n", "3"}).out, ::testing::Not(HasSubstr("# loopback")));
}

TEST(Programs, TuneWritesATableThatTheNextWorldTakes) {
  const Scratch scratch;
  const std::filesystem::path file = scratch / "tuned";
  std::ofstream(file) << "77 1 tcp own any star suitable\n2 1 memory own 4 chain 0\n2 1 memory shared 4 chain 0\n"
                      << "2 1 tcp own 4 chain 0\n2 1 tcp shared 4 chain 0\n";
  const Outcome outcome = launch({BENCH, "tune", "-s", "4,64K", "-r", "2", "--budget_ms", "1", "-o", file.string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the library's own choice is within 10 % of the best at "));
  std::stringstream table;
  table << std::ifstream(file).rdbuf();
  EXPECT_THAT(table.str(),
              AllOf(HasSubstr("\n77 1 tcp own any star suitable\n"), HasSubstr("\n2 1 "), HasSubstr(" any ")));
  const auto rows = lines(table.str());
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto& l) { return l.ends_with(" 4 chain 0"); }), 3) << table.str();
  expect_rows(run({"env", "ANELLO_TABLE=" + file.string(), ANELLO_PROGRAM, "run", "-n", "2", "--", BENCH, "allreduce",
                   "-s", "4", "-n", "3"}),
              1);
  EXPECT_THAT(run({BENCH, "tune"}).err, HasSubstr("one rank has nothing to tune"));
  EXPECT_THAT(run({"env", "ANELLO_ALGORITHM=ring", BENCH, "tune"}).err, HasSubstr("unset ANELLO_ALGORITHM"));
  std::filesystem::remove(file);
}

TEST(Programs, BusyMeasuresAStepOfEachKindOfCall) {
  for (const std::string calls : {"blocking", "waiting", "looking"}) {
    const Outcome outcome = launch({BENCH, "busy", "--threads", "1", "--calls", calls, "--budget_ms", "5"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\\[0\\] +1 +5 +4 +4096 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+\n"));
  }
  EXPECT_THAT(launch({BENCH, "busy", "--nice", "20"}).err, HasSubstr("--nice"));
}

TEST(Programs, IdleMeasuresWhatARankCosts) {
  for (const std::string calls : {"blocking", "waiting"}) {
    const Outcome outcome =
        launch({BENCH, "idle", "--calls", calls, "--idle_ms", "5", "--late_ms", "5", "--operations", "3"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::string any = " +[0-9.]+", some = " +[0-9]*[1-9][0-9.]*";  // memory, files and threads are never zero
    std::string row = "\\[0\\]" + any + any;
    for (int k = 0; k < 5; k++) row += some;
    for (int k = 0; k < 4; k++) row += any;
    EXPECT_THAT(outcome.out, ::testing::ContainsRegex(row + "\n"));
  }
  EXPECT_THAT(run({BENCH, "idle"}).err, HasSubstr("a world of one rank does not wait: start two or more"));
  EXPECT_EQ(launch({BENCH, "idle", "--idle_ms", "0"}).code, 2);
}

TEST(Programs, BusyWithMoreThreadsThanTheSystemAllowsIsAnError) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers need more addresses than this test allows";
#endif
  const Outcome outcome = run({"sh", "-c", "ulimit -s 1000000; ulimit -v 4000000; exec " BENCH " busy --threads 1000"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::ContainsRegex("--threads 1000: thread [0-9]+ cannot be started: .*; take fewer"));
}

TEST(Programs, AStepSaysWhatIsExposedInEachKindOfBucket) {
  const Outcome outcome = launch(
      {BENCH, "step", "--parameters", "10000", "--tensors", "10", "--backward", "2", "--buckets", "0,4096", "-r", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("10 tensors, 10000 parameters, median of 2 steps"), HasSubstr("[0] backward alone"),
                    HasSubstr("ms, and one blocking allreduce: exposed "),
                    HasSubstr("[0] 1 buckets of suitable size: "), HasSubstr("[0] 10 buckets of 4096 bytes: ")));
}

TEST(Programs, OursSendsInHalfTheBytes) {
  const Outcome outcome = launch({BENCH, "--wire", "bfloat16", "allreduce", "-s", "4,64K", "-n", "3"});
  expect_rows(outcome, 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"wire\":\"bf16\""), ::testing::Not(HasSubstr("inf"))));
  EXPECT_THAT(run({BENCH, "--wire", "int8", "allreduce"}).err, HasSubstr("--wire 'int8' must be half or bfloat16"));
}

TEST(Programs, ListsAndFactorsAreCheckedAndRefusedWhereTheyMeanNothing) {
  expect_rows(launch({BENCH, "--list", "100", "--factors", "allreduce", "-s", "4,64K", "-n", "3"}), 2);
  expect_rows(launch({BENCH, "--list", "1K", "--async", "broadcast", "-s", "64K", "-n", "3"}), 1);
  const Outcome all = launch({BENCH, "--factors", "reduce", "-s", "4K", "-n", "3", "-o", "all"});
  expect_rows(all, 4);
  EXPECT_THAT(all.out,
              HasSubstr("# left out: float prod: --factors is for reductions of floats, and not for products"));
  const Outcome none = launch({BENCH, "--list", "1K", "gather", "-s", "4K", "-n", "3"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("--list is for allreduce and broadcast"));
  EXPECT_EQ(launch({BENCH, "--list", "0", "allreduce", "-s", "4"}).code, 2);
}

TEST(Programs, AWorldOfOneNeedsNoLauncher) {
  const Outcome outcome = run({BENCH, "allreduce", "-b", "1K", "-n", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"world\":1"));
  EXPECT_THAT(outcome.out, HasSubstr("# one rank sends nothing"));
}

TEST(Programs, BadCommandLinesAreUsageErrorsSaidOnce) {
  const Outcome outcome = launch({BENCH, "allreduce", "-n", "4x"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("-n='4x' is not a whole number"), HasSubstr("anello-bench --help")));
  const auto all = lines(outcome.err);
  EXPECT_EQ(std::ranges::count_if(all, [](const auto& line) { return line.find("4x") != std::string::npos; }), 1);
  EXPECT_EQ(run({BENCH}).code, 2);
  EXPECT_THAT(run({BENCH}).err, HasSubstr("write the operation first, then its flags: allreduce, broadcast"));
  EXPECT_THAT(run({BENCH, "-b", "8", "-e", "4M", "allreduce"}).err, HasSubstr("write the operation first"));
  EXPECT_THAT(run({BENCH, "alreduce"}).err, HasSubstr("write the operation first"));
  EXPECT_THAT(run({BENCH, "allreduce", "--bytes"}).err, Not(HasSubstr("write the operation first")));
  EXPECT_THAT(run({BENCH, "allreduce", "-g", "1", "-t", "2"}).err, HasSubstr("not expected: -g 1 -t 2; see"));
  EXPECT_THAT(run({BENCH, "allgatherall"}).err, HasSubstr("allgatherall"));
  EXPECT_EQ(run({BENCH, "allreduce", "--help"}).code, 0);
}

TEST(Programs, AFileThatCannotBeWrittenEndsAllRanks) {
  const Outcome outcome = launch({BENCH, "allreduce", "-b", "4", "-J", "/nowhere/out.json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("[0] anello-bench: -J /nowhere/out.json: No such file or directory"));
}

TEST(Programs, FiguresThatAreLostAreAnError) {
  const Outcome full = run({"sh", "-c", BENCH " allreduce -s 4 -n 1 -w 1 > /dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("standard output cannot be written"));
}

#ifdef BENCH_OPENMPI
TEST(Programs, OpenMpiMeasuresInTheSameColumns) {
  expect_mpi_rows({OPENMPI_LAUNCHER, "--allow-run-as-root", "--oversubscribe", "-n", "2", BENCH_OPENMPI});
}
#endif
#ifdef BENCH_MPICH
TEST(Programs, MpichMeasuresInTheSameColumns) {
  expect_mpi_rows({MPICH_LAUNCHER, "-n", "2", BENCH_MPICH});
}
#endif

#ifdef BENCH_GLOO
TEST(Programs, GlooMeasuresInTheSameColumns) {
  for (const std::string algorithm : {"ring", "ring_chunked", "halving_doubling"}) {
    const Scratch scratch;
    expect_rows(launch({BENCH_GLOO, "--store", scratch.path().string(), "--algorithm", algorithm, "allreduce", "-b",
                        "4", "-e", "64K", "-f", "128", "-n", "3", "-w", "1"}),
                3);
  }
  EXPECT_THAT(run({BENCH_GLOO, "allreduce"}).err, HasSubstr("give --store DIR"));
}
#endif

}  // namespace
}  // namespace anello::bench
