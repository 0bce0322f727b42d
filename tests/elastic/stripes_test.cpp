// Which rank sends which part of the state to which ranks.
#include "ring/elastic/stripes.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

namespace anello::elastic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kMany = 100 * kStripeBlock + 17;

Decision between(int sources, int receivers) {
  Decision decision{.revision = 3};
  for (int rank = 0; rank < sources; rank++) decision.sources.push_back(rank);
  for (int rank = 0; rank < receivers; rank++) decision.receivers.push_back(sources + rank);
  return decision;
}

std::map<int, std::uint64_t> sent_by_source(const std::vector<Stripe>& stripes) {
  std::map<int, std::uint64_t> sent;
  for (const Stripe& each : stripes) sent[each.source] += each.end - each.begin;
  return sent;
}

// The stripes that each receiver gets follow each other from the first byte to the last.
void expect_complete(const Decision& decision, const std::vector<Stripe>& stripes, std::uint64_t bytes) {
  std::map<int, std::vector<std::pair<std::uint64_t, std::uint64_t>>> got;
  for (const Stripe& each : stripes) {
    EXPECT_LT(each.begin, each.end);
    EXPECT_TRUE(std::ranges::binary_search(decision.sources, each.source));
    EXPECT_TRUE(std::ranges::is_sorted(each.receivers));
    for (const int receiver : each.receivers) got[receiver].emplace_back(each.begin, each.end);
  }
  std::vector<int> receivers;
  for (auto& [receiver, parts] : got) {
    receivers.push_back(receiver);
    std::ranges::sort(parts);
    std::uint64_t at = 0;
    for (const auto& [begin, end] : parts) {
      EXPECT_EQ(begin, at);
      at = end;
    }
    EXPECT_EQ(at, bytes);
  }
  EXPECT_EQ(receivers, bytes == 0 ? std::vector<int>() : decision.receivers);
}

TEST(Stripes, ReachEachReceiverOnceAndNoSource) {
  for (int sources = 1; sources <= 8; sources++)
    for (int receivers = 0; receivers <= 4; receivers++)
      for (const int hosts : {1, 2, 3, 12})
        for (const std::uint64_t bytes :
             {0UL, 1UL, kStripeBlock - 1, kStripeBlock, kStripeBlock + 1, kMany, 1UL << 40}) {
          const Decision decision = between(sources, receivers);
          std::vector<int> nodes;
          for (int rank = 0; rank < sources + receivers; rank++) nodes.push_back(rank % hosts);
          expect_complete(decision, stripes_of(decision, nodes, bytes), bytes);
        }
}

TEST(Stripes, AreEqualOnOneHost) {
  for (int sources = 1; sources <= 8; sources++) {
    const Decision decision = between(sources, 2);
    const auto sent = sent_by_source(stripes_of(decision, std::vector<int>(10), kMany));
    EXPECT_EQ(int(sent.size()), sources);
    for (const auto& [source, bytes] : sent) {
      EXPECT_GE(bytes + 2 * kStripeBlock, kMany / std::uint64_t(sources));
      EXPECT_LE(bytes, kMany / std::uint64_t(sources) + kStripeBlock);
    }
  }
}

TEST(Stripes, AFewBytesComeFromTheFirstSource) {
  const std::vector<Stripe> stripes = stripes_of(between(3, 2), {0, 0, 0, 0, 0}, kStripeBlock);
  ASSERT_EQ(stripes.size(), 1u);
  EXPECT_EQ(stripes[0].source, 0);
  EXPECT_THAT(stripes[0].receivers, ElementsAre(3, 4));
}

// Rank 3 is on the host of ranks 0 and 1. Rank 4 is on a host without a source.
TEST(Stripes, SourcesOfTheOwnHostArePreferred) {
  const std::vector<Stripe> stripes = stripes_of(between(3, 2), {0, 0, 1, 0, 2}, kMany);
  std::set<int> sources_of_3, sources_of_4;
  for (const Stripe& each : stripes) {
    ASSERT_EQ(each.receivers.size(), 1u);
    (each.receivers[0] == 3 ? sources_of_3 : sources_of_4).insert(each.source);
  }
  EXPECT_THAT(sources_of_3, ElementsAre(0, 1));
  EXPECT_THAT(sources_of_4, ElementsAre(0, 1, 2));
}

// Three sources share the link of host 0, and one source has the link of host 1 for itself.
TEST(Stripes, HostsSendEqualParts) {
  const auto sent = sent_by_source(stripes_of(between(4, 1), {0, 0, 0, 1, 2}, 600 * kStripeBlock));
  EXPECT_THAT(sent, ElementsAre(testing::Pair(0, 100 * kStripeBlock), testing::Pair(1, 100 * kStripeBlock),
                                testing::Pair(2, 100 * kStripeBlock), testing::Pair(3, 300 * kStripeBlock)));
}

TEST(Stripes, ThereAreNoneWithoutReceivers) {
  EXPECT_THAT(stripes_of(between(3, 0), {0, 0, 0}, kMany), IsEmpty());
}

}  // namespace
}  // namespace anello::elastic
