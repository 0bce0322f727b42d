#include "ring/group/text_exchange.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <array>

#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<NamedValue>;

constexpr Options kName{.name = "the test's values"};

TEST(TextExchange, BroadcastsTextOfAnyRank) {
  run_world(3, [](World& world) {
    for (int root = 0; root < 3; root++) {
      const std::string sent = root == 1 ? "" : "rank " + std::to_string(root);
      EXPECT_EQ(broadcast_text(root, world, world.rank() == root ? sent : "another", kName), sent);
    }
  });
}

TEST(TextExchange, GathersTextsOfDifferentLengths) {
  run_world(4, [](World& world) {
    const std::string mine(std::size_t(3 * world.rank()), char('a' + world.rank()));
    EXPECT_EQ(gather_text(world, mine, kName), (std::vector<std::string>{"", "bbb", "cccccc", "ddddddddd"}));
    EXPECT_EQ(gather_text(world, "", kName), std::vector<std::string>(4, ""));
  });
}

// Rank 0 sends bytes that are not a list of names and values, or a length for which there is no memory.
TEST(TextExchange, RefusesWhatIsNotAList) {
  const auto refused = [](const std::function<void(World&)>& sends, const std::string& why) {
    const auto told = told_on_all_ranks(2, [&](World& world) {
      if (world.rank() == 0) return sends(world);
      require_same(world, Values{{"size", "3"}}, kName);
    });
    ASSERT_TRUE(told[1].error) << why;
    EXPECT_EQ(told[1].error->code(), ErrorCode::protocol);
    EXPECT_THAT(told[1].error->what(), HasSubstr(why));
  };
  for (const std::string& list : {std::string("\xff\xff\xff\xff", 4), std::string("\1\0\0\0a", 5), std::string("abc")})
    refused([&](World& world) { broadcast_text(0, world, list, kName); }, "the test's values");
  refused(
      [](World& world) {
        std::uint64_t bytes = std::uint64_t(1) << 60;
        world.broadcast(std::span(&bytes, 1), 0, kName);
      },
      "the test's values: rank 0 announced 1152921504606846976 bytes; at most 268435456 are allowed");
}

// Checks that every rank of four throws the same error if rank 2 has other values, and that the world goes on.
void expect_named(const Values& usual, const Values& odd, const std::string& message) {
  for (const Told& told : told_on_all_ranks(4, [&](World& world) {
         try {
           require_same(world, world.rank() == 2 ? odd : usual, kName);
         } catch (const Error&) {
           world.barrier();
           throw;
         }
       })) {
    ASSERT_TRUE(told.error) << message;
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_EQ(told.error->rank(), 2);
    EXPECT_EQ(told.error->message(), message);
  }
}

TEST(TextExchange, NamesTheFirstDifferenceOnAllRanks) {
  const Values usual = {{"size", "3"}, {"colour", "red"}, {"weight", "1"}};
  expect_named(usual, {{"size", "3"}, {"colour", "blue"}, {"weight", "2"}},
               "colour differs: red on rank 0, blue on rank 2");
  expect_named(usual, {{"size", "3"}}, "colour differs: red on rank 0, none on rank 2");
  expect_named({}, usual, "size differs: none on rank 0, 3 on rank 2");
  expect_named(usual, {{"size", "3"}, {"taste", "red"}, {"weight", "1"}},
               "colour differs: colour red on rank 0, taste red on rank 2");
}

TEST(TextExchange, EqualValuesPass) {
  run_world(3, [](World& world) {
    require_same(world, Values{{"size", ""}, {"", std::string("a\0b", 3)}}, kName);
    require_same(world, Values{}, kName);
  });
}

TEST(TextExchange, NamesTheFirstRankIfThatIsTheOddOne) {
  for (const Told& told : told_on_all_ranks(3, [](World& world) {
         require_same(world, Values{{"size", world.rank() == 0 ? "4" : "3"}}, kName);
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->rank(), 0);
    EXPECT_EQ(told.error->message(), "size differs: 4 on rank 0, 3 on rank 1");
  }
}

// If two ranks are outside of the majority, the first is blamed, and its value is shown.
TEST(TextExchange, ShowsTheValueOfTheRankThatItBlames) {
  const std::array<const char*, 7> sizes{"3", "8", "9", "9", "3", "3", "3"};
  for (const Told& told : told_on_all_ranks(7, [&](World& world) {
         require_same(world, Values{{"size", sizes[std::size_t(world.rank())]}}, kName);
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->rank(), 1);
    EXPECT_EQ(told.error->message(), "size differs: 3 on rank 0, 8 on rank 1");
  }
}

// The error has the numbers of ranks in the world. With only two ranks, either may be wrong, so none is blamed.
TEST(TextExchange, NamesTheRankOfTheWorld) {
  for (const Told& told : told_on_all_ranks(4, [](World& world) {
         if (world.rank() < 2) return;
         Group group = world.group({2, 3});
         require_same(group, Values{{"rank", std::to_string(group.rank())}}, kName);
       })) {
    if (told.rank < 2) continue;
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->rank(), -1);
    EXPECT_EQ(told.error->message(), "rank differs: 0 on rank 2, 1 on rank 3");
  }
}

}  // namespace
}  // namespace anello::group
