// A few trials of each fault; anello-faults carries out as many as one likes.
#include <gmock/gmock.h>

#include "tests/faults/besieged.hpp"
#include "tests/faults/soak.hpp"
#include "tests/support/random.hpp"

namespace anello::faults {
namespace {

class EachFault : public testing::TestWithParam<Fault> {};

TEST_P(EachFault, AreFoundOutAsPromised) {
  for (const std::uint64_t seed : seeds(GetParam() == Fault::kill ? 24 : 3 * kSlowdown)) {
    const Trial trial = any_trial(GetParam(), seed);
    EXPECT_EQ(carry_out(trial, ANELLO_VICTIM).wrong, "") << describe(trial) << "; " << replay(seed);
  }
}
INSTANTIATE_TEST_SUITE_P(, EachFault,
                         testing::Values(Fault::none, Fault::server, Fault::kill, Fault::stop, Fault::pause),
                         [](const auto& tested) { return std::string(name(tested.param)); });

// Nobody but the rendezvous knows the rank that dies before it connects.
TEST(Faults, ADeathWhileOthersConnectIsKnownAtOnce) {
  for (int delay = 0; delay < 6; delay++) {
    const Trial trial{.moment = Moment::start, .ranks = 2, .victim = 1, .delay = milliseconds(delay / 2)};
    EXPECT_EQ(carry_out(trial, ANELLO_VICTIM).wrong, "") << describe(trial);
  }
}

TEST(Siege, CostsAJobNothingAndIsCounted) {
  const Outcome outcome = carry_out({ANELLO_PROGRAM, {ANELLO_VICTIM, "pausing"}, 25, 400});
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_THAT(outcome.made, testing::Each(25));
  EXPECT_EQ(miscounted(outcome), "");
}

TEST(Soak, LeavesNothingBehind) {
  const Soaked soaked =
      soak(milliseconds(5000), 1, ANELLO_VICTIM, [](const std::string& wrong) { ADD_FAILURE() << wrong; });
  EXPECT_GT(soaked.worlds, 3);
  EXPECT_GT(soaked.operations, 100u);
}

}  // namespace
}  // namespace anello::faults
