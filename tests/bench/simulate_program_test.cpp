// anello-bench simulate as a real process.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/process.hpp"

namespace anello::bench {
namespace {

using anello::testing::Outcome;
using anello::testing::run;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

TEST(Simulate, RunsAloneAndMarksTheChoice) {
  const std::string file = ::testing::TempDir() + "anello_simulate_" + std::to_string(getpid()) + ".json";
  const Outcome outcome = run(
      {BENCH, "simulate", "-n", "2-8,256", "-b", "1K", "--ranks-per-host", "2", "--bandwidth", "10Gbit", "-J", file});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("--bandwidth 1.25GB"), HasSubstr("one host for all"), HasSubstr("; taken: ")));
  const auto json = nlohmann::json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  EXPECT_EQ(json.at("config").at("cluster").at("network_bytes_per_us"), 1250);
  int chosen = 0;
  for (const auto& row : json.at("results")) {
    EXPECT_GE(row.at("ratio"), 1) << row.dump();
    chosen += row.at("chosen").get<bool>();
  }
  EXPECT_EQ(chosen, 4);
}

TEST(Simulate, KnowsTheOtherCollectives) {
  const Outcome outcome = run({BENCH, "simulate", "--collective", "broadcast", "-n", "4", "-b", "1M"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(" *ring "), HasSubstr("  tree "), HasSubstr("  halving ")));
}

// In the simulation, as in a measurement, each rank's part has at least one element. The printed size is the size that
// was simulated.
TEST(Simulate, TakesAtLeastAnElementForEachPart) {
  const std::string file = ::testing::TempDir() + "anello_simulate_" + std::to_string(getpid()) + ".json";
  for (const std::string collective : {"allgather", "reduce_scatter", "gather", "scatter", "alltoall"}) {
    const Outcome outcome =
        run({BENCH, "simulate", "--collective", collective, "-n", "2,6", "-s", "1,4,20,32", "-J", file});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("nan"))) << collective;
    std::set<std::pair<int, int>> sizes;
    const auto json = nlohmann::json::parse(std::ifstream(file));
    for (const auto& row : json.at("results")) {
      sizes.emplace(row.at("world"), row.at("size"));
      EXPECT_EQ(row.at("simulated_size"), row.at("size"));
      EXPECT_GT(row.at("time_us"), 0) << row.dump();
    }
    EXPECT_THAT(sizes, ElementsAre(Pair(2, 8), Pair(2, 24), Pair(2, 32), Pair(6, 24), Pair(6, 48))) << collective;
  }
  std::filesystem::remove(file);
  EXPECT_THAT(run({BENCH, "simulate", "-n", "2", "-s", "0,1"}).out, Not(HasSubstr("nan")));
}

TEST(Simulate, ShowsWhatPlanningCosts) {
  const Outcome outcome = run({BENCH, "simulate", "--planning", "-n", "16384", "-b", "1M"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("plan(ms)"), HasSubstr("  16384     1048576 *")));
}

TEST(Simulate, CalibratesItselfAndSaysSoInFlags) {
  const Outcome first = run({BENCH, "simulate", "--calibrate", "-n", "2", "-b", "4"});
  EXPECT_EQ(first.code, 0) << first.err;
  const std::string flags = first.out.substr(2, first.out.find('\n') - 2);
  EXPECT_THAT(flags, AllOf(HasSubstr("--message "), HasSubstr("--switch ")));
  const Outcome again = run({"bash", "-c", std::string("exec " BENCH " simulate -n 2 -b 4 ") + flags});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr(flags));
}

TEST(Simulate, SaysWhatIsWrong) {
  const auto error = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {BENCH, "simulate"});
    const Outcome outcome = run(flags);
    EXPECT_NE(outcome.code, 0);
    return outcome.err;
  };
  EXPECT_THAT(error({"--collective", "sum"}), HasSubstr("--collective 'sum' is not one of allreduce, broadcast, "));
  EXPECT_THAT(error({"--latency", "15"}), HasSubstr("--latency '15' is not a duration such as"));
  EXPECT_THAT(error({"--bandwidth", "fast"}), HasSubstr("--bandwidth 'fast' is not a rate such as"));
  EXPECT_THAT(error({"-n", "1"}), HasSubstr("-n='1' is not a whole number from 2"));
  EXPECT_THAT(error({"-n", "9-8"}), HasSubstr("-n '9-8' is not a list of numbers of ranks"));
  EXPECT_THAT(error({"--segment", "4"}), HasSubstr("--segment 4: at least 64 bytes"));
  EXPECT_THAT(error({"-n", "12", "--ranks-per-host", "8", "-b", "4"}), HasSubstr("give a multiple of it"));
  EXPECT_THAT(error({"-J", "/nowhere/out.json"}), HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace anello::bench
