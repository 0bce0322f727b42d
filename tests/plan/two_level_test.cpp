// Plans of two levels, in which ranks share hosts: check() proves them for every numbering and size of hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/plan/cases.hpp"

namespace anello::plan {
namespace {

std::vector<Layout> layouts() {
  std::vector<Layout> all{in_blocks({3, 2, 1}),
                          in_blocks({1, 3}),
                          in_blocks({1, 1, 2}),
                          in_blocks({5}),
                          in_blocks(4, 1),
                          shuffled(in_blocks({3, 2, 1}), 1),
                          shuffled(in_blocks({1, 4, 2, 1}), 2)};
  for (const auto& [hosts, each] : {std::pair{2, 2}, {2, 3}, {3, 2}, {4, 4}, {5, 2}}) {
    all.push_back(in_blocks(hosts, each));
    all.push_back(round_robin(hosts, each));
  }
  return all;
}

std::vector<Plan> allreduce_on(const Layout& layout, Algorithm algorithm, std::uint64_t count, std::uint64_t slab) {
  const algorithms::Hosts hosts(layout.hosts);
  return plans_of(layout.world(), [&](int rank) {
    return algorithms::plan_allreduce(algorithm,
                                      {.rank = rank, .world = layout.world(), .count = count, .hosts = &hosts}, slab);
  });
}

class TwoLevels : public testing::TestWithParam<Layout> {};

TEST_P(TwoLevels, EveryAlgorithmBetweenHostsIsRight) {
  const Layout& layout = GetParam();
  for (const Levels levels : all_levels())
    for (const Algorithm between : all_algorithms())
      for (const std::uint64_t count : {1, layout.world() - 1, 4 * layout.world() + 1})
        for (const std::uint64_t slab : {0, 5}) {
          const Algorithm algorithm = in_levels(levels, between);
          EXPECT_EQ(check(allreduce_on(layout, algorithm, count, slab), {Kind::allreduce}), std::nullopt)
              << name(algorithm) << ", " << count << " in slabs of " << slab;
        }
}

// Algorithms of one level must work on hosts with several ranks too.
TEST_P(TwoLevels, OneLevelIsRightOnHosts) {
  const Layout& layout = GetParam();
  for (const Algorithm algorithm : all_algorithms())
    for (const std::uint64_t slab : {0, 5})
      EXPECT_EQ(check(allreduce_on(layout, algorithm, 2 * layout.world() + 1, slab),
                      {Kind::allreduce, reproducible(algorithm)}),
                std::nullopt)
          << name(algorithm) << " in slabs of " << slab;
}

TEST_P(TwoLevels, OtherCollectivesAreRightOnHosts) {
  const algorithms::Hosts hosts(GetParam().hosts);
  const int world = GetParam().world();
  for (const Algorithm algorithm : all_algorithms()) {
    const auto barrier = plans_of(world, [&](int rank) {
      return algorithms::plan_barrier({.rank = rank, .world = world, .hosts = &hosts}, algorithm);
    });
    EXPECT_EQ(check(barrier, {Kind::barrier}), std::nullopt) << name(algorithm);
  }
  for (const std::uint64_t count : {1, 7})
    for (const Case& each : cases_on_hosts(GetParam(), count))
      EXPECT_EQ(check(each.plans, each.expectation), std::nullopt) << each.name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, TwoLevels, testing::ValuesIn(layouts()), [](const auto& each) {
  std::string name = each.param.name;
  for (char& letter : name)
    if (letter == '+' || letter == ' ') letter = '_';
  return "On" + name;
});

// The cases have more ranks than a line of the grid, and hosts whose ranks swap roles from slab to slab.
TEST(TwoLevelsOfMany, AreRight) {
  for (const Layout& layout : {in_blocks(18, 1), in_blocks(2, 8), round_robin(3, 6)})
    for (const Case& each : cases_on_hosts(layout, 2))
      EXPECT_EQ(check(each.plans, each.expectation), std::nullopt) << each.name;
  for (const std::uint64_t slab : {0, 19})
    EXPECT_EQ(check(allreduce_on(in_blocks(18, 1), Algorithm::grid, 37, slab), {Kind::allreduce}), std::nullopt);
  for (const Algorithm between : all_algorithms())
    EXPECT_EQ(check(allreduce_on(in_blocks(2, 8), in_levels(Levels::shares, between), 40, 9), {Kind::allreduce}),
              std::nullopt);
  for (const std::uint64_t slab : {10, 7})  // with 8 slabs, sums come first; with 12, rounds change places
    EXPECT_EQ(
        check(allreduce_on(in_blocks(18, 2), in_levels(Levels::shares, Algorithm::grid), 80, slab), {Kind::allreduce}),
        std::nullopt);
}

// Tests the order in which a rank receives from other hosts: it receives sums into scratch or by reductions, and
// results into the output.
class SlabsBetweenHosts : public testing::Test {
 protected:
  // The plan of rank 0 of 18 hosts with two ranks, which are a grid of 9 x 2.
  static Plan plan(std::uint64_t slab) {
    return allreduce_on(in_blocks(18, 2), in_levels(Levels::shares, Algorithm::grid), 80, slab)[0];
  }
  static bool is_result(const Step& step) { return step.act == Act::copy && step.place.space == Space::output; }
  static std::set<int> peers(const Plan& plan) {
    std::set<int> all;
    for (const Stream& stream : plan.streams)
      if (stream.kind == Stream::Kind::receive && stream.peer > 1) all.insert(stream.peer);
    return all;
  }
  static bool sums_are_first(const Plan& plan) {
    std::uint32_t last_sum = 0, first_result = UINT32_MAX;
    for (const Stream& stream : plan.streams)
      for (std::uint32_t i = stream.first; i < stream.end && stream.kind == Stream::Kind::receive; i++) {
        const Step& step = plan.steps[i];
        if (stream.peer > 1 && is_result(step)) first_result = std::min(first_result, step.order);
        if (stream.peer > 1 && !is_result(step)) last_sum = std::max(last_sum, step.order);
      }
    return last_sum < first_result;
  }
};

TEST_F(SlabsBetweenHosts, OfFewAllSumsComeFirst) {
  const Plan few = plan(10);
  EXPECT_TRUE(sums_are_first(few));
  EXPECT_EQ(peers(few), (std::set<int>{2, 4, 8, 12, 16, 20, 24, 28, 32})) << "every slab in the same grid";
}

TEST_F(SlabsBetweenHosts, OfManyEveryOtherTakesTheRoundsTheOtherWayRound) {
  const Plan many = plan(7);
  EXPECT_FALSE(sums_are_first(many));
  EXPECT_TRUE(peers(many).contains(18)) << "the line of two of the turned grid";
  EXPECT_TRUE(peers(many).contains(32)) << "the line of nine of the other one";
}

TEST(TwoLevelsWithoutHosts, AreTheAlgorithmBetweenHosts) {
  for (const Levels levels : all_levels())
    for (const Algorithm between : all_algorithms())
      EXPECT_EQ(to_text(algorithms::plan_allreduce(in_levels(levels, between), {1, 4, 9})),
                to_text(algorithms::plan_allreduce(between, {1, 4, 9})));
}

}  // namespace
}  // namespace anello::plan
