// Worlds whose ranks come with different states.
#include <gmock/gmock.h>

#include <array>
#include <stdexcept>

#include "ring/elastic/stripes.hpp"
#include "tests/elastic/ranks.hpp"

namespace anello::elastic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kLarge = 5'000'000;

void expect_all(const Ranks& all, int value, std::uint64_t revision) {
  for (const auto& rank : all) rank->expect(value, revision);
}

TEST(Synchronize, AJobBeginsWithTheValuesOfRank0) {
  const Ranks all = ranks(newcomer(1), newcomer(2), newcomer(3));
  expect_in_order(synchronize(all, false));
  expect_all(all, 1, 0);
  EXPECT_THAT(all[2]->result.sources, ElementsAre(0));
  EXPECT_THAT(all[2]->result.receivers, ElementsAre(1, 2));
}

TEST(Synchronize, AWorldOfOneBeginsAndGoesOn) {
  const Ranks all = ranks(newcomer(1));
  expect_in_order(synchronize(all, false));
  all[0]->expect(1, 0);
  all[0]->state.commit([&] { all[0]->step = 5; });
  expect_in_order(synchronize(all, true));
  EXPECT_EQ(all[0]->step, 5);
  EXPECT_EQ(all[0]->state.revision(), 1u);
}

TEST(Synchronize, TheSourceNeedNotBeRank0) {
  const Ranks all = ranks(newcomer(1, kLarge), holder(7, 12, kLarge), newcomer(2, kLarge));
  expect_in_order(synchronize(all, true));
  expect_all(all, 7, 12);
  for (const auto& rank : all) {
    EXPECT_EQ(rank->result.revision, 12u);
    EXPECT_THAT(rank->result.sources, ElementsAre(1));
    EXPECT_THAT(rank->result.receivers, ElementsAre(0, 2));
    EXPECT_EQ(rank->result.bytes, kLarge + 1 + 1);  // the text of the step has one digit
    EXPECT_GT(rank->result.took.count(), 0);
  }
}

TEST(Synchronize, OnlyReceiversReceive) {
  const Ranks all = ranks(holder(7, 12, kLarge), holder(7, 12, kLarge), newcomer(2, kLarge));
  expect_in_order(synchronize(all, true));
  expect_all(all, 7, 12);
  for (const int source : {0, 1}) {
    EXPECT_GE(all[std::size_t(source)]->counters.sent_bytes, kLarge / 2 - kStripeBlock);
    EXPECT_LT(all[std::size_t(source)]->counters.received_bytes, kMessages);
  }
  EXPECT_GE(all[2]->counters.received_bytes, kLarge);
}

TEST(Synchronize, NothingIsCopiedWithoutReceivers) {
  const Ranks all = ranks(holder(7, 12, kLarge), holder(7, 12, kLarge), holder(7, 12, kLarge));
  expect_in_order(synchronize(all, true));
  expect_all(all, 7, 12);
  for (const auto& rank : all) {
    EXPECT_THAT(rank->result.receivers, IsEmpty());
    EXPECT_EQ(rank->result.bytes, 0u);
    EXPECT_LT(rank->counters.sent_bytes, kMessages);
  }
}

TEST(Synchronize, EightRanksWithTwoSources) {
  const Ranks all =
      ranks(newcomer(1), holder(6, 3), newcomer(2), holder(7, 4), newcomer(3), holder(7, 4), newcomer(4), holder(6, 3));
  all[7]->unclean();
  expect_in_order(synchronize(all, true));
  expect_all(all, 7, 4);
  EXPECT_THAT(all[0]->result.sources, ElementsAre(3, 5));
}

TEST(Synchronize, ARankWhoseUpdateFailedReceives) {
  const Ranks all = ranks(newcomer(1), newcomer(2));
  expect_in_order(synchronize(all, false));
  const auto update = [&](std::size_t rank, int value) {
    return [&all, rank, value] {
      all[rank]->weights.assign(all[rank]->weights.size(), std::byte(value));
      if (value < 0) throw std::runtime_error("no memory");
      all[rank]->bias[0] = std::byte(value);
      all[rank]->step = value;
    };
  };
  EXPECT_THROW(all[0]->state.commit(update(0, -1)), std::runtime_error);
  all[1]->state.commit(update(1, 3));
  expect_in_order(synchronize(all, true));
  expect_all(all, 3, 1);
}

// A rank with its own statistics. Each step changes something in them, even a step that fails.
struct StatisticsRank {
  StatisticsRank(float value, std::optional<std::uint64_t> held) : statistics{value, value} {
    state.add_own("statistics", std::as_writable_bytes(std::span(statistics)));
    if (held) StateAccess::contents(state).settle(*held);
  }
  std::array<float, 2> statistics;
  State state;
};
using StatisticsRanks = std::array<StatisticsRank, 3>;

void synchronize_all(StatisticsRanks& all, bool begun) {
  for (const Told& told :
       told_on_all_ranks(3, [&](World& world) { synchronize(world, all[std::size_t(world.rank())].state, begun); }))
    EXPECT_FALSE(told.error) << told.error->what();
}

TEST(Synchronize, AReceiverGetsTheOwnMemoryOfTheFirstSource) {
  StatisticsRanks all{StatisticsRank{1, {}}, StatisticsRank{2, 5}, StatisticsRank{3, 5}};
  synchronize_all(all, true);
  EXPECT_THAT(all[0].statistics, ElementsAre(2, 2));
  EXPECT_THAT(all[1].statistics, ElementsAre(2, 2));
  EXPECT_THAT(all[2].statistics, ElementsAre(3, 3)) << "a source keeps its own, which differ from those of the others";
}

TEST(Synchronize, OwnMemoryIsThatOfTheLastCommit) {
  StatisticsRanks all{StatisticsRank{1, {}}, StatisticsRank{2, {}}, StatisticsRank{3, {}}};
  all[0].statistics[1] = 7;  // from a checkpoint, after it was added
  synchronize_all(all, false);
  for (StatisticsRank& each : all) {
    EXPECT_THAT(each.statistics, ElementsAre(1, 7));
    each.statistics[0] = 4;  // written before the commit, as a forward pass does
    each.state.commit([] {});
    each.statistics[0] = 5;  // the step that fails
  }
  synchronize_all(all, true);
  for (const StatisticsRank& each : all) EXPECT_THAT(each.statistics, ElementsAre(4, 7));
}

// Each of the three ranks has each kind of state, in all combinations.
TEST(Synchronize, AllCombinationsOfThreeRanks) {
  enum Kind { joins, older, newest, torn };
  const auto make = [](Kind kind) {
    if (kind == joins) return newcomer(1);
    if (kind == torn) return std::unique_ptr<Rank>(holder(9, 8));
    return kind == older ? holder(6, 7) : holder(7, 8);
  };
  for (int number = 0; number < 64; number++) {
    const std::array<Kind, 3> kinds{Kind(number & 3), Kind(number >> 2 & 3), Kind(number >> 4)};
    SCOPED_TRACE(testing::Message() << kinds[0] << kinds[1] << kinds[2]);
    const Ranks all = ranks(make(kinds[0]), make(kinds[1]), make(kinds[2]));
    std::vector<int> newest_ranks, older_ranks;
    for (int rank = 0; rank < 3; rank++) {
      if (kinds[std::size_t(rank)] == torn) all[std::size_t(rank)]->unclean();
      if (kinds[std::size_t(rank)] == newest) newest_ranks.push_back(rank);
      if (kinds[std::size_t(rank)] == older) older_ranks.push_back(rank);
    }
    const auto errors = synchronize(all, true);
    if (newest_ranks.empty() && older_ranks.empty()) {
      for (const auto& error : errors) EXPECT_TRUE(error && error->code() == ErrorCode::rendezvous);
      continue;
    }
    expect_in_order(errors);
    expect_all(all, newest_ranks.empty() ? 6 : 7, newest_ranks.empty() ? 7 : 8);
    for (const auto& rank : all) EXPECT_EQ(rank->result.sources, newest_ranks.empty() ? older_ranks : newest_ranks);
  }
}

}  // namespace
}  // namespace anello::elastic
