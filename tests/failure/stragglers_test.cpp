#include "ring/failure/stragglers.hpp"

#include <gmock/gmock.h>

namespace anello::failure {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeriod{1000};

// This rank's state in the world, or in another group.
StragglerDetector::Groups group(milliseconds slept, std::uint64_t completed, std::vector<int> members = {0, 1, 2}) {
  const std::uint64_t id = members.size() == 3 ? 0 : 7;
  return {{id, {std::move(members), slept, completed}}};
}

// Returns the ranks that are named after a period in which this rank slept for `own`, and each peer for its time in
// `peers`.
std::vector<int> named(milliseconds own, const std::map<int, milliseconds>& peers, std::vector<int> members = {0, 1, 2},
                       std::uint64_t operations = 5) {
  StragglerDetector detector(kPeriod);
  constexpr milliseconds kBefore{70'000};
  for (const auto& [peer, slept] : peers) detector.received(peer, kBefore);
  EXPECT_TRUE(detector.is_due(milliseconds(5)));
  EXPECT_TRUE(detector.check(group(kBefore, 100, members), milliseconds(5)).empty());
  for (const auto& [peer, slept] : peers) detector.received(peer, kBefore + slept);
  EXPECT_FALSE(detector.is_due(milliseconds(4) + kPeriod)) << "the period is not over";
  EXPECT_TRUE(detector.is_due(milliseconds(5) + kPeriod));
  std::vector<int> ranks;
  for (const Straggler& each :
       detector.check(group(kBefore + own, 100 + operations, members), milliseconds(5) + kPeriod)) {
    EXPECT_EQ(each.own, own);
    EXPECT_EQ(each.theirs, peers.at(each.rank));
    EXPECT_EQ(each.period, kPeriod);
    ranks.push_back(each.rank);
  }
  return ranks;
}

TEST(StragglerDetector, NamesRanksThatDoNotWaitWhileThisRankDoes) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(10)}, {2, milliseconds(850)}}), testing::ElementsAre(1));
}

TEST(StragglerDetector, NamesNobodyIfAllWaitOrNoneDoes) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(700)}, {2, milliseconds(850)}}), testing::IsEmpty());
  EXPECT_THAT(named(milliseconds(300), {{1, milliseconds(10)}, {2, milliseconds(0)}}), testing::IsEmpty());
}

// In group (0, 2), rank 1 cannot delay rank 0.
TEST(StragglerDetector, NamesOnlyMembersOfTheGroupInWhichThisRankWaits) {
  const std::map<int, milliseconds> peers{{1, milliseconds(10)}, {2, milliseconds(10)}};
  EXPECT_THAT(named(milliseconds(900), peers), testing::ElementsAre(1, 2));
  EXPECT_THAT(named(milliseconds(900), peers, {0, 2}), testing::ElementsAre(2));
  EXPECT_THAT(named(milliseconds(900), peers, {0, 3}), testing::IsEmpty());
}

// A rank that does not come at all is reported as a stall.
TEST(StragglerDetector, NamesNobodyIfNoOperationEnds) {
  EXPECT_THAT(named(milliseconds(900), {{1, milliseconds(10)}}, {0, 1, 2}, 0), testing::IsEmpty());
}

TEST(StragglerDetector, JudgesOnlyRanksKnownSinceThePeriodBegan) {
  StragglerDetector detector(kPeriod);
  detector.check(group(milliseconds(0), 0), milliseconds(0));
  detector.received(1, milliseconds(0));
  detector.received(2, milliseconds(0));
  EXPECT_TRUE(detector.check(group(milliseconds(900), 5), kPeriod).empty()) << "they are new";
  detector.remove(2);
  EXPECT_EQ(detector.check(group(milliseconds(1800), 9), 2 * kPeriod).size(), 1u);
}

TEST(StragglerReports, ComeAfterAMinuteTwoAndFourWhileThereAreComplaints) {
  const LocalView view(0, {"a", "b"}, [](auto, auto) { return std::nullopt; });
  StragglerReports reports(view);
  std::vector<long> minutes;
  const auto complain = [&](milliseconds from, milliseconds to) {
    for (milliseconds now = from; now < to; now += milliseconds(10'000))
      if (reports.report(0, {.rank = 1}, now)) minutes.push_back(now.count() / 60'000);
  };
  complain(milliseconds(0), milliseconds(1'000'000));
  EXPECT_THAT(minutes, testing::ElementsAre(0, 1, 3, 7, 15));
  minutes.clear();
  complain(milliseconds(1'200'000), milliseconds(1'300'000));
  EXPECT_THAT(minutes, testing::ElementsAre(20, 21)) << "it was fast meanwhile";
}

}  // namespace
}  // namespace anello::failure
