// The scripts' own work (arguments, medians, tables), with programs that only print what they are told.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace anello::bench {
namespace {

using anello::testing::Outcome;
using anello::testing::run;
using ::testing::HasSubstr;

class Scripts : public ::testing::Test {
 protected:
  Scripts() {
    std::filesystem::create_directories(folder_);
    program("anello", "export RANKS=$3; shift 4; exec \"$@\"");
  }
  ~Scripts() override { std::filesystem::remove_all(folder_); }

  void program(const std::string& name, const std::string& script) {
    const auto path = folder_ / name;
    std::ofstream(path) << "#!/usr/bin/env bash\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // One line of results: medians out of place and in place.
  static std::string line(const std::string& out_of_place, const std::string& in_place) {
    return "echo '  4 1 float sum " + out_of_place + " 0 0 0 1 1 " + in_place + " 0 0 0 1 1'";
  }
  Outcome scaling(const std::string& arguments) const { return script("scaling.sh", arguments); }
  Outcome compare(const std::string& arguments) const { return script("compare.sh", arguments); }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("anello_scripts_" + std::to_string(getpid()));

 private:
  Outcome script(const std::string& name, const std::string& arguments) const {
    return run(
        {"bash", "-c", "exec bash " ANELLO_SOURCE_DIR "/bench/" + name + " -B " + folder_.string() + " " + arguments});
  }
};

TEST_F(Scripts, ScalingComparesWithTheFirstWorld) {
  program("anello-train", R"(
    while [[ $1 != --log ]]; do shift; done
    for rate in 1 800 900 1000; do
      echo '{"event":"epoch","communication_share":0.'$RANKS',"epoch":1,"samples_per_second":'$((rate * RANKS))'}'
    done >"$2"
    echo '{"event":"end"}' >>"$2")");
  const Outcome outcome = scaling("-n 1,2");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("     1          900       100 %         10.0 %"));
  EXPECT_THAT(outcome.out, HasSubstr("     2         1800       100 %         20.0 %"));
  EXPECT_THAT(outcome.out, HasSubstr("strong: 64 samples a step shared by all ranks"));
}

TEST_F(Scripts, ScalingSaysWhatIsMissingOrWrong) {
  const Outcome missing = scaling("-n 1");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("anello-train was not found in " + folder_.string()));
  EXPECT_THAT(missing.err, HasSubstr("cmake --preset release"));
  EXPECT_THAT(scaling("-n 1,0").err, HasSubstr("-n '1,0' is not a list of numbers"));
  EXPECT_THAT(scaling("-e 0").err, HasSubstr("-e '0' is not a whole number"));
  program("anello-train", "echo 'no such dataset'; exit 1");
  const Outcome failed = scaling("-n 2");
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.err, HasSubstr("no such dataset"));
  EXPECT_THAT(failed.err, HasSubstr("anello-train failed on 2 ranks"));
}

TEST_F(Scripts, CompareTakesEachPeersBestAlgorithm) {
  program("anello-bench", line("10", "20"));
  program("anello-bench-gloo", "[[ $4 == ring_chunked ]] && " + line("15", "50") + " || " + line("30", "50"));
  const std::string file = (folder_ / "out.json").string();
  const Outcome outcome = compare("-r 3 -s 4,64K -o " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const char* expected :
       {"  4 out-of-place  gloo ring_chunked              10.0         15.0    1.50    1.50 -  1.50",
        "64K in-place      gloo ring_chunked              20.0         50.0    2.50    2.50 -  2.50"})
    EXPECT_THAT(outcome.out, HasSubstr(expected));
  const auto json = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(json.at("config").at("world"), 2);
  ASSERT_EQ(json.at("results").size(), 4U);
  EXPECT_EQ(json.at("results").at(0).at("ratio"), 1.5);
}

TEST_F(Scripts, CompareSaysWhatIsMissingOrWrong) {
  EXPECT_THAT(compare("").err, HasSubstr("anello-bench was not found"));
  program("anello-bench", line("10", "20"));
  const Outcome alone = compare("");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.out, HasSubstr("gloo: not here; install it (Debian: apt-get install libgloo-dev)"));
  EXPECT_THAT(alone.err, HasSubstr("no peer is here to compare with"));
  EXPECT_THAT(compare("-s 4X").err, HasSubstr("-s '4X' is not a list of sizes"));
  EXPECT_THAT(compare("-r 3 more").err, HasSubstr("'more' is no option"));
  program("anello-bench-gloo", "echo 'connect: refused' >&2; exit 1");
  const Outcome failed = compare("-r 1");
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.err, HasSubstr("connect: refused"));
  EXPECT_THAT(failed.err, HasSubstr("failed at 64M"));
}

}  // namespace
}  // namespace anello::bench
