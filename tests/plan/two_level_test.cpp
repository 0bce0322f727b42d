// Plans that know which ranks share a host: check() proves them for every numbering and size of hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/cases.hpp"
#include "tests/support/layouts.hpp"

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

// Those of one level know hosts as well.
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
  const Layout& layout = GetParam();
  const int world = layout.world();
  const algorithms::Hosts hosts(layout.hosts);
  const std::vector<std::uint64_t> uneven = uneven_counts(world, 5);
  const auto expect_right = [&](const Signature& signature, int root, const std::vector<std::uint64_t>& counts) {
    const auto plans = plans_of(world, [&](int rank) {
      return algorithms::plan_of(signature, {.rank = rank,
                                             .world = world,
                                             .count = counts.empty() ? 7U : 0U,
                                             .root = root,
                                             .counts = counts,
                                             .hosts = &hosts});
    });
    const bool rank_order = signature.algorithm != Algorithm::automatic;
    EXPECT_EQ(check(plans, {signature.kind, rank_order, root, counts}), std::nullopt)
        << name(signature.kind) << " of root " << root;
  };
  expect_right({.kind = Kind::barrier}, 0, {});
  expect_right({.kind = Kind::alltoall}, 0, {});
  for (const auto& counts : {std::vector<std::uint64_t>{}, uneven}) {
    expect_right({.kind = Kind::allgather}, 0, counts);
    for (const std::uint32_t slab : {0, 8}) expect_right({.slab_elems = slab, .kind = Kind::reduce_scatter}, 0, counts);
    expect_right({.kind = Kind::reduce_scatter, .algorithm = Algorithm::two_shot}, 0, counts);
  }
  for (int root = 0; root < world; root++) {
    expect_right({.kind = Kind::broadcast}, root, {});
    for (const std::uint32_t slab : {0, 3}) expect_right({.slab_elems = slab, .kind = Kind::reduce}, root, {});
    expect_right({.slab_elems = 3, .kind = Kind::reduce, .algorithm = Algorithm::chain}, root, {});
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, TwoLevels, testing::ValuesIn(layouts()), [](const auto& each) {
  std::string name = each.param.name;
  for (char& letter : name)
    if (letter == '+' || letter == ' ') letter = '_';
  return "On" + name;
});

// More ranks than a line of the grid has; and hosts whose ranks change places from slab to slab.
TEST(TwoLevelsOfMany, AreRight) {
  for (const std::uint64_t slab : {0, 19})
    EXPECT_EQ(check(allreduce_on(in_blocks(18, 1), Algorithm::grid, 37, slab), {Kind::allreduce}), std::nullopt);
  for (const Algorithm between : all_algorithms())
    EXPECT_EQ(check(allreduce_on(in_blocks(2, 8), in_levels(Levels::shares, between), 40, 9), {Kind::allreduce}),
              std::nullopt);
}

TEST(TwoLevelsWithoutHosts, AreTheAlgorithmBetweenHosts) {
  for (const Levels levels : all_levels())
    for (const Algorithm between : all_algorithms())
      EXPECT_EQ(to_text(algorithms::plan_allreduce(in_levels(levels, between), {1, 4, 9})),
                to_text(algorithms::plan_allreduce(between, {1, 4, 9})));
}

}  // namespace
}  // namespace anello::plan
