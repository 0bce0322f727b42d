// A few trials of each fault; anello-faults carries out as many as one likes.
#include <gtest/gtest.h>

#include "tests/faults/trial.hpp"
#include "tests/support/random.hpp"

namespace anello::faults {
namespace {

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, AreFoundOutAsPromised) {
  for (const std::uint64_t seed : seeds(GetParam() == Fault::kill ? 24 : 4 * kSlowdown)) {
    const Trial trial = any_trial(GetParam(), seed);
    EXPECT_EQ(carry_out(trial, ANELLO_VICTIM).wrong, "") << describe(trial) << "; " << replay(seed);
  }
}
INSTANTIATE_TEST_SUITE_P(, Faults, testing::Values(Fault::none, Fault::kill, Fault::stop, Fault::pause),
                         [](const auto& tested) { return std::string(name(tested.param)); });

}  // namespace
}  // namespace anello::faults
