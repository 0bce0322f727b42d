// The scripts in tests/failure/scripts, found by name and run with many seeds; and scripts that must fail.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/failure/script.hpp"
#include "tests/support/random.hpp"

namespace anello::failure {
namespace {

using testing::HasSubstr;
using testing::Optional;

std::vector<std::string> script_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ANELLO_SCRIPTS))
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  return names;
}

class AgreementScript : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, AgreementScript, testing::ValuesIn(script_names()),
                         [](const auto& script) { return script.param; });

TEST_P(AgreementScript, IsAsItSays) {
  const std::string path = text(ANELLO_SCRIPTS "/", GetParam(), ".txt");
  std::ostringstream script;
  script << std::ifstream(path).rdbuf();
  ASSERT_FALSE(script.str().empty()) << path;
  for (const std::uint64_t seed : seeds(40))
    ASSERT_EQ(run_script(script.str(), seed).value_or(""), "") << path << ", " << replay(seed);
}

void expect_failure(const std::string& script, const std::string& complaint) {
  EXPECT_THAT(run_script(script, 1), Optional(HasSubstr(complaint))) << script;
}

TEST(AgreementScripts, FailAtTheLineThatDoesNotHold) {
  const std::string world = "# A world\nranks 3\npropose 2 aborted \"enough\"\ndeliver\n";
  EXPECT_EQ(run_script(world + "expect verdict 2 aborted \"eno\"", 1), std::nullopt);
  expect_failure(world + "expect no verdict", "line 5: expected no verdict, rank 0 has 'enough'");
  expect_failure(world + "expect verdict 1 aborted", "line 5: expected a different verdict, rank 0 has 2 aborted");
  expect_failure(world + "expect verdict 2 network", "line 5: expected a different verdict, rank 0 has 2 aborted");
  expect_failure(world + "expect verdict 2 aborted \"more\"", "line 5: expected 'more' in 'enough'");
  expect_failure(world + "expect report \"\"", "line 5: expected a report, there is none");
  expect_failure(world + "expect end 3", "line 5: rank 0 expects group 0 to end at no operation");
  expect_failure("ranks 2\nexpect verdict 0 aborted", "line 2: expected a verdict, rank 0 has none");
  expect_failure("ranks 2\nleave 1 completed=3\ndeliver\nexpect end 2 at 0",
                 "line 4: rank 0 expects group 0 to end at 3");
  expect_failure("ranks 2\nleave 1 completed=3\ndeliver\nexpect no end at 0",
                 "line 4: rank 0 expects group 0 to end at 3");
  const std::string apart = "ranks 2\ncut 0 1\nadvance 1500ms\n";
  expect_failure(apart + "expect verdict 1 rank_dead", "line 4: expected a different verdict, rank 1 has 0 rank_dead");
  const std::string stall = "ranks 2\nbegin 0 0\nstall 0 0\nadvance 50ms\n";
  expect_failure(stall + "expect report \"x\"", "line 5: expected a different report than 'allreduce #0");
  expect_failure(stall + "expect no report", "line 5: unexpected report: allreduce #0");
  expect_failure(stall + "ranks 2", "line 5: unexpected report: allreduce #0");
  expect_failure(stall, "line 4: unexpected report: allreduce #0");
}

TEST(AgreementScripts, FailAtALineThatIsNotUnderstood) {
  expect_failure("kill 0", "line 1: a world begins with 'ranks'");
  expect_failure("ranks 2\nresurrect 0", "line 2: 'resurrect' is not a command");
  expect_failure("ranks 2\nkill", "line 2: 'kill' needs one more word");
  expect_failure("ranks 2\nkill 2", "line 2: there is no rank 2");
  expect_failure("ranks 2\nkill one", "line 2: ");
  expect_failure("ranks 2\nkill 0 1", "line 2: '1' is one word too many");
  expect_failure("ranks 2\nkill 0 \"x\"", "line 2: \"x\" is one text too many");
  expect_failure("ranks 2\nkill 0 group=1", "line 2: 'group=' does not belong here");
  expect_failure("ranks 2\npropose 0 tired \"x\"", "line 2: 'tired' is not an error code");
  expect_failure("ranks 2\npropose 0 aborted", "line 2: 'propose' needs a text in quotes");
  expect_failure("ranks 2\nadvance 300", "line 2: '300' must be a time in ms");
  expect_failure("ranks 2\nexpect rain", "line 2: cannot expect 'rain'");
}

}  // namespace
}  // namespace anello::failure
