// The bytes that leave a host, counted in the plans of all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ring/algorithms/hosts.hpp"
#include "ring/algorithms/plans.hpp"
#include "ring/algorithms/selection.hpp"
#include "tests/support/layouts.hpp"

namespace anello::algorithms {
namespace {

// Numbers of elements: the most that any host sends, and the most that any host receives.
struct Traffic {
  std::uint64_t out = 0, in = 0;
};

Traffic traffic(const Layout& layout, const Signature& signature, std::uint64_t count, int root = 0) {
  const Hosts hosts(layout.hosts);
  std::vector<Traffic> of_host(std::size_t(layout.count()));
  for (int rank = 0; rank < layout.world(); rank++) {
    const Plan plan =
        plan_of(signature, {.rank = rank, .world = layout.world(), .count = count, .root = root, .hosts = &hosts});
    for (const Step& step : plan.steps) {
      const int peer = plan.streams[step.stream].peer;
      if (step.act != Act::send || hosts.of(peer) == hosts.of(rank)) continue;
      of_host[std::size_t(hosts.of(rank))].out += step.range.count;
      of_host[std::size_t(hosts.of(peer))].in += step.range.count;
    }
  }
  return {std::ranges::max(of_host, {}, &Traffic::out).out, std::ranges::max(of_host, {}, &Traffic::in).in};
}

std::uint64_t leaves_a_host(const Layout& layout, const Signature& signature, std::uint64_t count, int root = 0) {
  return traffic(layout, signature, count, root).out;
}

std::uint64_t leaves_a_host(const Layout& layout, Algorithm algorithm, std::uint64_t count, std::uint32_t slab = 0) {
  return leaves_a_host(layout, {.slab_elems = slab, .kind = Kind::allreduce, .algorithm = algorithm}, count);
}

// Hosts with one rank and more, up to `max_ranks`.
Layout uneven(int hosts, int max_ranks) {
  std::vector<int> sizes;
  for (int host = 0; host < hosts; host++) sizes.push_back(1 + 3 * host % max_ranks);
  return in_blocks(sizes);
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const int hosts : {2, 3, 4, 5, 8, 12, 16})
    for (const int ranks : {1, 2, 3, 5, 8})
      for (const Layout& layout : {in_blocks(hosts, ranks), round_robin(hosts, ranks), uneven(hosts, ranks)})
        all.push_back(layout);
  return all;
}

Facts facts_of(const Layout& layout, std::uint64_t bytes) {
  const Hosts hosts(layout.hosts);
  return {.world = layout.world(),
          .hosts = layout.count(),
          .uneven = hosts.count() * hosts.max_ranks() != layout.world(),
          .bytes = bytes,
          .elem_bytes = 4};
}

// The minimum for h hosts is 2(h-1)/h of the elements. In this test the count can be divided among all ranks, and there
// are no slabs.
TEST(Traffic, IsTheLeastWhateverTheLayout) {
  for (const Layout& layout : layouts()) {
    const auto hosts = std::uint64_t(layout.count());
    const std::uint64_t shares = 8 * 7 * 5 * 3, count = hosts * shares * 8;
    const Choice choice = choose(facts_of(layout, std::max<std::uint64_t>(count * 4, 64 << 10)));
    EXPECT_EQ(leaves_a_host(layout, choice.algorithm, count), 2 * (hosts - 1) * shares * 8)
        << layout.name << " by " << name(choice.algorithm);
  }
}

// Uses the slabs that choose() wants, in which a chunk may have one element more than another.
TEST(Traffic, IsTheLeastFrom64KiBOn) {
  for (const Layout& layout : layouts())
    for (const std::uint64_t bytes : {64 << 10, 1 << 20}) {
      const Choice choice = choose(facts_of(layout, bytes));
      const double least = 2.0 * (layout.count() - 1) / layout.count() * double(bytes / 4);
      EXPECT_LT(double(leaves_a_host(layout, choice.algorithm, bytes / 4, choice.slab_elems)), 1.01 * least)
          << layout.name << " by " << name(choice.algorithm) << ", " << bytes << " bytes";
    }
}

TEST(Traffic, TheRingFollowsHostsWhateverTheRanksNumbers) {
  for (const Layout& layout : {in_blocks(2, 8), round_robin(2, 8), shuffled(in_blocks(2, 8), 1)})
    EXPECT_EQ(leaves_a_host(layout, Algorithm::ring, 1600), 2 * 15 * 100U) << layout.name;
}

// The least number of elements that must leave or enter the busiest host, for N elements in all. For most collectives,
// these are all elements that the ranks of the smallest host do not have; for a broadcast and a reduce all N; for an
// alltoall the parts for other hosts.
double least(Kind kind, const Layout& layout) {
  const Hosts hosts(layout.hosts);
  if (kind == Kind::broadcast || kind == Kind::reduce) return 1;
  double share = 0;
  for (int host = 0; host < hosts.count(); host++) {
    const double ranks = double(hosts.ranks(host).size()), others = layout.world() - ranks;
    share = std::max(share, others / layout.world() * (kind == Kind::alltoall ? ranks : 1));
  }
  return share;
}

double busiest_over_least(const Layout& layout, Kind kind, const Choice& choice) {
  constexpr std::uint64_t kCount = 840;
  const double whole = double(kCount) * (facts_of(kind).parts ? layout.world() : 1);
  const Traffic all = traffic(layout, {.kind = kind, .algorithm = choice.algorithm}, kCount, layout.world() / 2);
  return double(std::max(all.out, all.in)) / whole / least(kind, layout);
}

void expect_least(const Layout& layout, Kind kind, std::uint64_t bytes) {
  const Choice choice = choose(kind, facts_of(layout, bytes));
  const bool flat = choice.algorithm == Algorithm::ring && facts_of(kind).parts;
  EXPECT_LE(busiest_over_least(layout, kind, choice), flat ? 1.13 : 1.001)
      << layout.name << ", " << name(kind) << " by " << name(choice.algorithm) << ", " << bytes << " bytes";
}

TEST(Traffic, OfOtherCollectivesIsTheLeastAsWell) {
  for (const Layout& layout : layouts())
    for (const Kind kind : {Kind::allgather, Kind::reduce_scatter, Kind::broadcast, Kind::reduce, Kind::alltoall})
      for (const std::uint64_t bytes : {1 << 20, 16 << 20})
        expect_least(layout, kind, bytes * std::uint64_t(facts_of(kind).parts ? layout.count() : 1));
}

// If hosts are unequal, small parts also go directly from the largest host to each host, and a small broadcast goes
// down a tree, whose root sends the data log2(hosts) times.
TEST(Traffic, OfSmallPartsIsTheLeastIfHostsAreEqual) {
  for (const Layout& layout : layouts())
    for (const Kind kind : {Kind::allgather, Kind::reduce_scatter})
      for (const std::uint64_t part_bytes : {256, 4 << 10, 32 << 10})
        if (!facts_of(layout, 0).uneven) expect_least(layout, kind, part_bytes * std::uint64_t(layout.world()));
}

TEST(Traffic, OfOtherCollectivesWithoutTwoLevels) {
  for (const Layout& layout : {in_blocks(4, 3), round_robin(4, 3), shuffled(in_blocks(4, 3), 1)})
    for (const int root : {0, 5}) {
      const auto leaves = [&](Kind kind, Algorithm algorithm) {
        return leaves_a_host(layout, {.kind = kind, .algorithm = algorithm}, 100, root);
      };
      EXPECT_EQ(leaves(Kind::broadcast, Algorithm::tree), 2 * 100U) << layout.name;
      EXPECT_EQ(leaves(Kind::reduce, Algorithm::tree), 100U) << layout.name;
      EXPECT_EQ(leaves(Kind::allgather, Algorithm::ring), 11 * 100U) << layout.name;
      EXPECT_EQ(leaves(Kind::reduce_scatter, Algorithm::ring), 11 * 100U) << layout.name;
    }
}

TEST(Hosts, AreInTheOrderOfTheirFirstRanks) {
  const Hosts hosts(std::vector{7, 2, 7, 5, 2, 7});
  EXPECT_EQ(hosts.count(), 3);
  EXPECT_EQ(hosts.max_ranks(), 3);
  EXPECT_THAT(hosts.all_ranks(), testing::ElementsAre(0, 2, 5, 1, 4, 3));
  EXPECT_THAT(hosts.ranks(1), testing::ElementsAre(1, 4));
  EXPECT_EQ(hosts.of(3), 2);
}

}  // namespace
}  // namespace anello::algorithms
