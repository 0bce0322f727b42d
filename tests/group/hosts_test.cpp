// Worlds and groups whose hosts have several ranks.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <cmath>

#include "tests/support/hosts.hpp"
#include "tests/support/worlds.hpp"

namespace anello {
namespace {

std::vector<Algorithm> of_two_levels() {
  std::vector<Algorithm> all;
  for (const Levels levels : all_levels())
    for (const Algorithm between : all_algorithms()) all.push_back(in_levels(levels, between));
  return all;
}

void expect_every_algorithm_works(Group& group) {
  for (const Algorithm algorithm : of_two_levels())
    for (const std::uint64_t count : {1, 20'000}) {
      Exercise exercise{.count = count, .in_place = count == 1, .algorithm = algorithm};
      EXPECT_EQ(carry_out(group, exercise), "") << name(algorithm) << ", rank " << group.rank();
    }
}

TEST(WorldsOnHosts, ReduceInTwoLevels) {
  for (const Layout& layout : {in_blocks({3, 2, 1}), round_robin(2, 2)}) run_on(layout, expect_every_algorithm_works);
}

TEST(GroupsOnHosts, HaveThePartsOfHostsThatTheirMembersAre) {
  run_on(in_blocks({3, 2, 1}), [](World& world) {
    if (world.rank() != 1) {
      Group group = world.group({4, 0, 5, 2, 3});
      expect_every_algorithm_works(group);
    }
    Group pair = world.split(world.rank() % 2);
    expect_every_algorithm_works(pair);
  });
}

// Tiny, small and large sizes, because they use different algorithms.
void expect_every_collective_works(Group& group) {
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter, Kind::broadcast, Kind::reduce, Kind::alltoall})
    for (const std::uint64_t count : {1, 3000, 70'000})
      for (const bool uneven : {false, true}) {
        if (uneven && (kind == Kind::broadcast || kind == Kind::reduce)) continue;
        const Exercise exercise{.kind = kind, .count = count, .root = group.size() - 1, .uneven = uneven};
        EXPECT_EQ(carry_out(group, exercise), "") << describe(exercise) << ", rank " << group.rank();
      }
}

TEST(WorldsOnHosts, CarryOutEveryCollective) {
  for (const Layout& layout : {in_blocks({3, 2, 1}), round_robin(2, 2), in_blocks(4, 1)})
    run_on(layout, expect_every_collective_works);
}

TEST(GroupsOnHosts, CarryOutEveryCollective) {
  run_on(in_blocks({3, 2, 1}), [](World& world) {
    if (world.rank() == 1) return;
    Group group = world.group({4, 0, 5, 2, 3});
    expect_every_collective_works(group);
  });
}

// Returns the results, by rank.
std::vector<std::vector<float>> results_on(const Layout& layout, const Settings& settings, const ReduceOptions& options,
                                           const std::function<float(int, std::size_t)>& contribution) {
  constexpr std::size_t kCount = 5000;
  std::vector<std::vector<float>> results(std::size_t(layout.world()), std::vector<float>(kCount));
  run_on(
      layout,
      [&](World& world) {
        std::vector<float>& mine = results[std::size_t(world.rank())];
        for (std::size_t i = 0; i < kCount; i++) mine[i] = contribution(world.rank(), i);
        world.allreduce(mine, Op::sum, options);
      },
      settings);
  return results;
}

float fraction(int rank, std::size_t i) {
  return std::sin(float(i * 7 + std::size_t(rank) + 1));
}

// A rank that is alone on its host sends its result to no other rank, so no narrow type rounds this result on the way.
// Its bits must be equal to those of the other ranks all the same.
TEST(WorldsOnHosts, HaveTheSameBitsOnAllRanksAlsoAsNarrowTypes) {
  for (const Algorithm algorithm : of_two_levels())
    for (const auto wire : {std::optional<DType>{}, std::optional(DType::bf16)}) {
      const auto results = results_on(in_blocks({3, 2, 1}), {}, {.algorithm = name(algorithm), .wire = wire}, fraction);
      for (const auto& each : results) EXPECT_EQ(each, results[0]) << name(algorithm) << (wire ? " as bf16" : "");
    }
}

TEST(WorldsOnHosts, KeepTheirBitsInReproducibleMode) {
  Settings settings;
  settings.reproducible = 1;
  const auto alone = results_on(in_blocks({6}), settings, {}, fraction);
  EXPECT_EQ(results_on(in_blocks({3, 2, 1}), settings, {}, fraction), alone);
  EXPECT_EQ(results_on(round_robin(2, 3), settings, {}, fraction), alone);
  for (const Algorithm algorithm : of_two_levels()) try {
      results_on(in_blocks({2, 1}), settings, {.algorithm = name(algorithm)}, fraction);
      ADD_FAILURE() << name(algorithm);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text("'", name(algorithm), "' cannot be forced in reproducible")));
    }
}

}  // namespace
}  // namespace anello
