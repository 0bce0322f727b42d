// Tests which links a pass looks at, and when it stops.
#include "ring/run/receive_turns.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace anello::run {
namespace {

// The streams that passes look at; stream s has place `orders[s]` in the program.
struct Passes {
  ReceiveTurns turns;
  std::vector<std::uint64_t> orders;
  std::vector<Look> found;
  std::vector<std::uint32_t> looked;

  bool pass() {
    looked.clear();
    return turns.pass([this](std::uint32_t s) { return orders[s]; },
                      [this](std::uint32_t s) {
                        looked.push_back(s);
                        return found[s];
                      });
  }
};
using Streams = std::vector<std::uint32_t>;

TEST(ReceiveTurns, BeginWithTheFirstInTheProgramAndEndAfterTwoMisses) {
  Passes passes{{}, {0, 9, 8, 3, 7}, std::vector<Look>(5, Look::missed), {}};
  passes.turns.start(1, 5);
  EXPECT_FALSE(passes.pass());
  EXPECT_EQ(passes.looked, (Streams{3, 1}));
  EXPECT_FALSE(passes.pass());
  EXPECT_EQ(passes.looked, (Streams{3, 2}));
  EXPECT_FALSE(passes.pass());
  EXPECT_EQ(passes.looked, (Streams{3, 4}));
  EXPECT_FALSE(passes.pass());
  EXPECT_EQ(passes.looked, (Streams{3, 1})) << "from the beginning again";
}

TEST(ReceiveTurns, OnlyMissesCount) {
  Passes passes{{}, {0, 9, 8, 3, 7}, {Look::missed, Look::skipped, Look::moved, Look::missed, Look::skipped}, {}};
  passes.turns.start(1, 5);
  EXPECT_TRUE(passes.pass());
  EXPECT_EQ(passes.looked, (Streams{3, 1, 2, 4}));
}

TEST(ReceiveTurns, LookAtNoneIfAllHaveEnded) {
  Passes passes{{}, std::vector<std::uint64_t>(3, ReceiveTurns::kEnded), std::vector<Look>(3, Look::moved), {}};
  passes.turns.start(0, 3);
  EXPECT_FALSE(passes.pass());
  EXPECT_EQ(passes.looked, Streams{});
  passes.turns.start(2, 2);
  EXPECT_FALSE(passes.pass()) << "there is none";
  passes.turns.start(2, 3);
  EXPECT_TRUE(passes.pass()) << "the only one is always looked at";
}

}  // namespace
}  // namespace anello::run
