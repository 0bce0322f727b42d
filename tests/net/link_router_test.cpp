// How many connections a rank accepts for groups that it has not made.
#include "ring/net/link_router.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/net/two_ranks.hpp"
#include "tests/support/resources.hpp"

namespace anello::net {
namespace {

// Connections for which there is no room are made again later. Their end does not count as a death.
TEST(LinkRouter, MoreConnectionsThanThereIsRoomForComeLater) {
  std::optional<TwoRanks> few;
  {
    const FewDescriptors limit(80);  // so that there is room for 10 at most
    few.emplace(over(true), 1, false);
  }
  auto& [low, high] = *few;
  std::uint64_t groups = 0;
  while (low.router.has_room({.role = Role::data, .group = 1000})) {
    high.begin(++groups);
    ASSERT_TRUE(high.link()) << groups;
  }
  EXPECT_LE(groups, 10u);
  high.begin(++groups);
  EXPECT_EQ(high.links->find(0), nullptr);
  EXPECT_FALSE(high.rings(50));
  for (std::uint64_t k = 1; k <= groups; k++) {
    low.begin(k);
    EXPECT_TRUE(low.link()) << k;
  }
  EXPECT_TRUE(high.link());
  EXPECT_EQ(low.failed.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

// Connections for groups that this rank has left must not take the room of connections for groups that it has not made
// yet.
TEST(LinkRouter, ConnectionsForGroupsThatARankHasLeftTakeNoRoom) {
  std::optional<TwoRanks> few;
  {
    const FewDescriptors limit(80);  // so that there is room for 10 at most
    few.emplace(over(false));
  }
  auto& [low, high] = *few;
  for (std::uint64_t group = 1; group <= 20; group++) {
    low.begin(group);
    low.router.remove(group);
    high.begin(group);
    ASSERT_TRUE(high.link()) << group;
  }
  EXPECT_TRUE(low.router.has_room({.role = Role::data, .group = 1000}));
}

}  // namespace
}  // namespace anello::net
