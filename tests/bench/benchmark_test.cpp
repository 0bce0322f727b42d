// Whole runs of the benchmark, small: two ranks as threads over real sockets.
#include "bench/benchmark.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <anello/testing.hpp>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/ours.hpp"

namespace anello::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A library with wrong results: one element of each large output is wrong on one rank, or on the root if only the root
// has an output.
class Liar : public Ours {
 public:
  using Ours::Ours;
  Call collective(Kind kind, ConstTensor input, Tensor output, Op op) override {
    const Call honest = Ours::collective(kind, input, output, op);
    const int liar = kind == Kind::reduce || kind == Kind::gather ? 0 : 1;
    if (rank() != liar || output.count < 100 || output.dtype != DType::f32) return honest;
    return [=] {
      honest();
      static_cast<float*>(output.data)[99] += 1;
    };
  }
};

struct Outcome {
  std::array<int, 2> codes{-1, -1};
  std::string text;
};

template <class Tested = Ours>
Outcome run(const Options& options, const Collective& collective = collectives()[0], bool async = false) {
  Outcome outcome;
  std::array<std::ostringstream, 2> out;
  run_world(2, [&](World& world) {
    Tested library(world, Settings{}, {.async = async});
    const auto rank = std::size_t(world.rank());
    outcome.codes[rank] = run_benchmark(library, collective, options, out[rank]);
  });
  EXPECT_EQ(out[1].str(), "");
  outcome.text = out[0].str();
  return outcome;
}

Options small() {
  Options options;
  options.sizes = {4, 4096};
  options.iterations = 3;
  options.warmup = 1;
  return options;
}

std::vector<std::vector<std::string>> rows(const std::string& text) {
  std::vector<std::vector<std::string>> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    all.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return all;
}

std::string scratch_file() {
  return testing::TempDir() + "anello_bench_" + std::to_string(getpid()) + ".json";
}

TEST(Benchmark, WritesALineForEverySizeTypeAndReduction) {
  Options options = small();
  options.dtypes = {DType::f32, DType::i8};
  options.ops = {Op::sum, Op::average};
  const Outcome outcome = run(options);
  EXPECT_THAT(outcome.codes, ElementsAre(0, 0));
  const auto lines = rows(outcome.text);
  ASSERT_EQ(lines.size(), 8U) << outcome.text;
  for (const auto& line : lines) {
    ASSERT_EQ(line.size(), 4U + 6U + 6U) << outcome.text;
    EXPECT_GT(std::stod(line[4]), 0);
    EXPECT_EQ(line[7], "0");
    EXPECT_EQ(line[13], "0");
  }
  EXPECT_THAT(std::vector(lines[7].begin(), lines[7].begin() + 4), ElementsAre("4096", "4096", "int8", "avg"));
  EXPECT_THAT(outcome.text, HasSubstr("# wrong values: 0 OK"));
}

TEST(Benchmark, JsonHasConfigAndResults) {
  Options options = small();
  options.json = scratch_file();
  run(options);
  const auto json = nlohmann::json::parse(std::ifstream(options.json));
  std::filesystem::remove(options.json);

  const auto& config = json.at("config");
  EXPECT_EQ(config.at("world"), 2);
  EXPECT_EQ(config.at("library"), "anello");
  EXPECT_EQ(config.at("operation"), "allreduce");
  EXPECT_EQ(config.at("algorithm"), "auto");
  EXPECT_GT(config.at("machine").at("cores"), 0);
  for (const char* name : {"cpu", "congestion", "kernel"}) EXPECT_TRUE(config.at("machine").at(name).is_string());
  ASSERT_EQ(json.at("results").size(), 2U);
  const auto& last = json.at("results").at(1);
  EXPECT_EQ(last.at("size"), 4096);
  EXPECT_EQ(last.at("count"), 1024);
  EXPECT_EQ(last.at("type"), "float");
  EXPECT_EQ(last.at("redop"), "sum");
  for (const char* placement : {"out_of_place", "in_place"}) {
    const auto& figures = last.at(placement);
    EXPECT_EQ(figures.at("nwrong"), 0);
    EXPECT_GT(figures.at("p50_us"), 0);
    EXPECT_GE(figures.at("p99_us"), figures.at("p50_us"));
    EXPECT_GT(figures.at("mean_us"), 0);
    EXPECT_NEAR(figures.at("alg_bw").get<double>(), 4096 / figures.at("p50_us").get<double>() * 1e-3, 1e-9);
    EXPECT_EQ(figures.at("bus_bw"), figures.at("alg_bw"));  // 2(n-1)/n = 1 for two ranks
  }
}

TEST(Benchmark, AWrongElementOnOneRankFailsAll) {
  const Outcome outcome = run<Liar>(small());
  EXPECT_THAT(outcome.codes, ElementsAre(1, 1));
  const auto lines = rows(outcome.text);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0][7], "0");
  EXPECT_EQ(lines[1][7], "1");
  EXPECT_EQ(lines[1][13], "1");
  EXPECT_THAT(outcome.text, HasSubstr("# wrong values: 2 FAILED"));
}

TEST(Benchmark, EveryCollectiveIsMeasuredAndChecked) {
  Options options = small();
  options.sizes = {4, 9001 * 4};
  for (const Collective& collective : collectives())
    for (const bool async : {false, true}) {
      const Outcome outcome = run(options, collective, async);
      EXPECT_THAT(outcome.codes, ElementsAre(0, 0)) << collective.name << outcome.text;
      EXPECT_THAT(outcome.text, HasSubstr("# wrong values: 0 OK")) << collective.name;
      EXPECT_THAT(outcome.text, HasSubstr(async ? "\"asynchronous\"" : "\"blocking\""));
      const auto lines = rows(outcome.text);
      ASSERT_EQ(lines.size(), collective.kind == Kind::barrier ? 1U : 2U) << collective.name;
      EXPECT_EQ(lines[0][3], collective.reduces ? "sum" : "none");
      for (const auto& line : lines) {
        EXPECT_EQ(line[7], collective.kind == Kind::broadcast ? "N/A" : "0") << outcome.text;
        const bool only_out_of_place = collective.kind == Kind::alltoall || collective.kind == Kind::barrier;
        EXPECT_EQ(line[13], only_out_of_place ? "N/A" : "0") << outcome.text;
      }
    }
}

TEST(Benchmark, AWrongElementOfEveryCollectiveIsNoticed) {
  Options options = small();
  options.sizes = {4096};
  for (const Collective& collective : collectives()) {
    if (collective.kind == Kind::barrier) continue;
    const Outcome outcome = run<Liar>(options, collective);
    EXPECT_THAT(outcome.codes, ElementsAre(1, 1)) << collective.name;
    EXPECT_THAT(outcome.text, HasSubstr(" FAILED")) << collective.name;
  }
}

TEST(Benchmark, WithoutChecksNothingIsSaidOfThem) {
  Options options = small();
  options.checks = 0;
  options.json = scratch_file();
  const Outcome outcome = run<Liar>(options);
  EXPECT_THAT(outcome.codes, ElementsAre(0, 0));
  EXPECT_EQ(rows(outcome.text)[1][7], "N/A");
  EXPECT_THAT(outcome.text, HasSubstr("# wrong values: not checked"));
  const auto json = nlohmann::json::parse(std::ifstream(options.json));
  std::filesystem::remove(options.json);
  EXPECT_TRUE(json.at("results").at(0).at("in_place").at("nwrong").is_null());
}

TEST(Benchmark, AgreesOnTheNumberOfCallsByItself) {
  Options options = small();
  options.sizes = {1 << 20};
  options.iterations = 0;
  options.warmup = -1;
  EXPECT_THAT(run(options).codes, ElementsAre(0, 0));
}

TEST(Benchmark, AFileThatCannotBeWrittenIsNamedAtOnce) {
  Options options = small();
  options.json = "/nowhere/out.json";
  try {
    run(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("-J /nowhere/out.json: No such file or directory"));
  }
}

TEST(Benchmark, MoreMemoryThanThereIsIsRefused) {
  Options options = small();
  options.sizes = {1ULL << 46};
  try {
    run(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not fit the memory of this host"));
  }
}

}  // namespace
}  // namespace anello::bench
