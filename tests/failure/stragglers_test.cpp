#include "ring/failure/stragglers.hpp"

#include <gmock/gmock.h>

namespace anello {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeriod{1000};

// Who is named after a period in which this rank and its peers waited for so long.
std::vector<int> named(milliseconds own, const std::map<int, milliseconds>& peers) {
  StragglerDetector laggards(kPeriod);
  constexpr milliseconds kBefore{70'000};
  for (const auto& [peer, waited] : peers) laggards.told(peer, kBefore);
  EXPECT_TRUE(laggards.look(kBefore, milliseconds(5)).empty());
  for (const auto& [peer, waited] : peers) laggards.told(peer, kBefore + waited);
  EXPECT_TRUE(laggards.look(kBefore + own, milliseconds(4) + kPeriod).empty()) << "the period is not over";
  std::vector<int> ranks;
  for (const Straggler& each : laggards.look(kBefore + own, milliseconds(5) + kPeriod)) {
    EXPECT_EQ(each.own, own);
    EXPECT_EQ(each.theirs, peers.at(each.rank));
    EXPECT_EQ(each.period, kPeriod);
    ranks.push_back(each.rank);
  }
  return ranks;
}

TEST(StragglerDetector, are_those_who_do_not_wait_while_this_rank_does) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(10)}, {2, milliseconds(850)}}), testing::ElementsAre(1));
}

TEST(StragglerDetector, are_none_where_all_wait_or_nobody_does) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(700)}, {2, milliseconds(850)}}), testing::IsEmpty());
  EXPECT_THAT(named(milliseconds(300), {{1, milliseconds(10)}, {2, milliseconds(0)}}), testing::IsEmpty());
}

TEST(StragglerDetector, are_judged_by_what_was_heard_all_along) {
  StragglerDetector laggards(kPeriod);
  laggards.look(milliseconds(0), milliseconds(0));
  laggards.told(1, milliseconds(0));
  laggards.told(2, milliseconds(0));
  EXPECT_TRUE(laggards.look(milliseconds(900), kPeriod).empty()) << "they are new";
  laggards.left(2);
  EXPECT_EQ(laggards.look(milliseconds(1800), 2 * kPeriod).size(), 1u);
}

}  // namespace
}  // namespace anello
