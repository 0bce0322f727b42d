// What leaves a host, counted in the plans of all ranks.
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

// Elements, of the host that sends the most.
std::uint64_t leaves_a_host(const Layout& layout, const Signature& signature, std::uint64_t count, int root = 0) {
  const Hosts hosts(layout.hosts);
  std::vector<std::uint64_t> sent(std::size_t(layout.count()), 0);
  for (int rank = 0; rank < layout.world(); rank++) {
    const Plan plan =
        plan_of(signature, {.rank = rank, .world = layout.world(), .count = count, .root = root, .hosts = &hosts});
    for (const Step& step : plan.steps) {
      const int peer = plan.streams[step.stream].peer, host = layout.hosts[std::size_t(rank)];
      if (step.act == Act::send && layout.hosts[std::size_t(peer)] != host) sent[std::size_t(host)] += step.range.count;
    }
  }
  return *std::ranges::max_element(sent);
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
  return {.world = layout.world(), .hosts = layout.count(), .bytes = bytes, .elem_bytes = 4};
}

// 2(h-1)/h of the elements, the least that can be: a count that can be divided among all, and no slabs.
TEST(Traffic, IsTheLeastWhateverTheLayout) {
  for (const Layout& layout : layouts()) {
    const auto hosts = std::uint64_t(layout.count());
    const std::uint64_t shares = 8 * 7 * 5 * 3, count = hosts * shares * 8;
    const Choice choice = choose(facts_of(layout, std::max<std::uint64_t>(count * 4, 64 << 10)));
    EXPECT_EQ(leaves_a_host(layout, choice.algorithm, count), 2 * (hosts - 1) * shares * 8)
        << layout.name << " by " << name(choice.algorithm);
  }
}

// In the slabs that choose() wants: a chunk may have one element more than another.
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

// Of N elements in all: the root's host sends them to one rank of each host it reaches, of which there are log2(hosts)
// at most; round a ring that follows hosts all but one part leave each host.
TEST(Traffic, OfOtherCollectivesFollowsHosts) {
  for (const Layout& layout : {in_blocks(4, 3), round_robin(4, 3), shuffled(in_blocks(4, 3), 1)})
    for (const int root : {0, 5}) {
      const auto leaves = [&](const Signature& signature) { return leaves_a_host(layout, signature, 100, root); };
      EXPECT_EQ(leaves({.kind = Kind::broadcast}), 2 * 100U) << layout.name;
      EXPECT_EQ(leaves({.kind = Kind::reduce}), 100U) << layout.name;
      EXPECT_EQ(leaves({.slab_elems = 10, .kind = Kind::reduce}), 100U) << layout.name;
      EXPECT_EQ(leaves({.kind = Kind::allgather}), 11 * 100U) << layout.name;
      EXPECT_EQ(leaves({.kind = Kind::reduce_scatter}), 11 * 100U) << layout.name;
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
