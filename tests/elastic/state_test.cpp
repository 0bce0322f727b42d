// A State by itself: its entries, and its commits.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <array>
#include <stdexcept>

#include "ring/elastic/contents.hpp"
#include "ring/elastic/hash.hpp"

namespace anello::elastic {
namespace {

using testing::HasSubstr;

template <class Call>
std::string refused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "it is not refused";
}

// Returns a state as it is after a synchronization.
State held(std::uint64_t revision) {
  State state;
  StateAccess::contents(state).settle(revision);
  return state;
}

const auto kSave = [] { return std::string(); };
const auto kLoad = [](std::string_view) {};

TEST(State, BeginsCleanWithoutHolding) {
  const State state;
  EXPECT_EQ(state.revision(), 0u);
  EXPECT_FALSE(state.holds());
  EXPECT_TRUE(state.clean());
}

TEST(State, NamesAreUniqueLines) {
  State state;
  std::array<std::byte, 4> bytes{};
  state.add("w", bytes);
  state.add_small("step", kSave, kLoad);
  EXPECT_THAT(refused([&] { state.add("w", bytes); }), HasSubstr("'w' was added before"));
  EXPECT_THAT(refused([&] { state.add("step", bytes); }), HasSubstr("'step' was added before"));
  EXPECT_THAT(refused([&] { state.add_small("w", kSave, kLoad); }), HasSubstr("'w' was added before"));
  EXPECT_THAT(refused([&] { state.add("", bytes); }), HasSubstr("'' is not a name of one line"));
  EXPECT_THAT(refused([&] { state.add("a\nb", bytes); }), HasSubstr("'a?b' is not a name of one line"));
  EXPECT_EQ(StateAccess::contents(state).entries.size(), 2u);
}

TEST(State, EntriesAreComplete) {
  State state;
  EXPECT_THAT(refused([&] {
                state.add("w", {static_cast<std::byte*>(nullptr), 8});
              }),
              HasSubstr("'w' is a null pointer with 8 bytes"));
  EXPECT_THAT(refused([&] { state.add_small("step", kSave, {}); }), HasSubstr("'step' needs both save and load"));
  EXPECT_THAT(refused([&] { state.add_small("step", {}, kLoad); }), HasSubstr("'step' needs both save and load"));
  EXPECT_THAT(refused([&] { state.add_small("step", {}, {}); }), HasSubstr("'step' needs both save and load"));
  state.add("empty", {});
  EXPECT_EQ(StateAccess::contents(state).entries.size(), 1u);
}

TEST(State, IsUncleanWhileItIsWritten) {
  State state = held(7);
  state.commit([&] {
    EXPECT_FALSE(state.clean());
    EXPECT_EQ(state.revision(), 7u);
  });
  EXPECT_TRUE(state.clean());
  EXPECT_TRUE(state.holds());
  EXPECT_EQ(state.revision(), 8u);
}

TEST(State, StaysUncleanAfterAnException) {
  State state = held(7);
  EXPECT_THROW(state.commit([] { throw std::runtime_error("no memory"); }), std::runtime_error);
  EXPECT_FALSE(state.clean());
  EXPECT_EQ(state.revision(), 7u);
  EXPECT_THAT(refused([&] { state.commit([] { ADD_FAILURE() << "a half-written state is written on"; }); }),
              HasSubstr("a commit after revision 7 is running or has failed"));
  EXPECT_FALSE(state.clean());
}

TEST(State, DoesNotCommitWithinACommit) {
  State state = held(0);
  EXPECT_THAT(refused([&] { state.commit([&] { state.commit([] {}); }); }), HasSubstr("is running or has failed"));
  EXPECT_FALSE(state.clean());
  EXPECT_EQ(state.revision(), 0u);
}

TEST(State, DoesNotCommitBeforeTheFirstWorld) {
  State state;
  EXPECT_THAT(refused([&] { state.commit([] {}); }), HasSubstr("has not been synchronized"));
  EXPECT_TRUE(state.clean());
}

TEST(State, IsRestoredOnlyBeforeTheFirstSynchronization) {
  State state;
  StateAccess::contents(state).receive();
  EXPECT_FALSE(state.clean());
  state.restored();
  EXPECT_TRUE(state.clean());
  EXPECT_FALSE(state.holds());
  State later = held(7);
  StateAccess::contents(later).receive();
  EXPECT_THAT(refused([&] { later.restored(); }), HasSubstr("the state has been synchronized"));
  EXPECT_FALSE(later.clean());
}

TEST(State, MovesWithItsEntries) {
  State state = held(3);
  state.add_small("step", kSave, kLoad);
  State moved = std::move(state);
  State other;
  other = std::move(moved);
  EXPECT_EQ(other.revision(), 3u);
  EXPECT_EQ(StateAccess::contents(other).entries.size(), 1u);
}

TEST(Hash, IsThatOfXxHash) {
  EXPECT_EQ(hex(Hash::of({})), "99aa06d3014798d86001c324468d497f");
  std::array<std::byte, 1> one{};
  const Hash before = Hash::of(one);
  one[0] = std::byte(1);
  EXPECT_NE(Hash::of(one), before);
}

}  // namespace
}  // namespace anello::elastic
