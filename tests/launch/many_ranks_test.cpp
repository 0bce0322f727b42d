// Many more ranks on this machine than it has cores.
#include <gmock/gmock.h>

#include "tests/support/process.hpp"

namespace anello::launch {
namespace {

using ::anello::testing::Outcome;
using ::anello::testing::run;

// The machine may have any load, so only a rank that hangs exceeds the limits.
TEST(ManyRanks, StartReduceAndLeave) {
  const Outcome outcome =
      run({ANELLO_PROGRAM, "run", "-n", "256", "--", SUMMING},
          {.environment = {"ANELLO_START_TIMEOUT=200000", "ANELLO_SILENCE_LIMIT=100000"}}, std::chrono::seconds(220));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace anello::launch
