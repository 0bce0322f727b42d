#include "ring/failure/stragglers.hpp"

#include <gmock/gmock.h>

namespace anello::failure {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeriod{1000};

// The ranks that are named after a period in which this rank slept for `own`, and each peer for its time.
std::vector<int> named(milliseconds own, const std::map<int, milliseconds>& peers) {
  StragglerDetector detector(kPeriod);
  constexpr milliseconds kBefore{70'000};
  for (const auto& [peer, slept] : peers) detector.received(peer, kBefore);
  EXPECT_TRUE(detector.check(kBefore, milliseconds(5)).empty());
  for (const auto& [peer, slept] : peers) detector.received(peer, kBefore + slept);
  EXPECT_TRUE(detector.check(kBefore + own, milliseconds(4) + kPeriod).empty()) << "the period is not over";
  std::vector<int> ranks;
  for (const Straggler& each : detector.check(kBefore + own, milliseconds(5) + kPeriod)) {
    EXPECT_EQ(each.own, own);
    EXPECT_EQ(each.theirs, peers.at(each.rank));
    EXPECT_EQ(each.period, kPeriod);
    ranks.push_back(each.rank);
  }
  return ranks;
}

TEST(StragglerDetector, names_ranks_that_do_not_wait_while_this_rank_does) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(10)}, {2, milliseconds(850)}}), testing::ElementsAre(1));
}

TEST(StragglerDetector, names_nobody_if_all_wait_or_none_does) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(700)}, {2, milliseconds(850)}}), testing::IsEmpty());
  EXPECT_THAT(named(milliseconds(300), {{1, milliseconds(10)}, {2, milliseconds(0)}}), testing::IsEmpty());
}

TEST(StragglerDetector, judges_only_ranks_known_since_the_period_began) {
  StragglerDetector detector(kPeriod);
  detector.check(milliseconds(0), milliseconds(0));
  detector.received(1, milliseconds(0));
  detector.received(2, milliseconds(0));
  EXPECT_TRUE(detector.check(milliseconds(900), kPeriod).empty()) << "they are new";
  detector.remove(2);
  EXPECT_EQ(detector.check(milliseconds(1800), 2 * kPeriod).size(), 1u);
}

}  // namespace
}  // namespace anello::failure
