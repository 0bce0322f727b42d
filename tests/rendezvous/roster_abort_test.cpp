// The ranks to which a roster can send the end of a world, and how it sends this.
#include <gmock/gmock.h>

#include "tests/rendezvous/rosters.hpp"

namespace anello::rendezvous {
namespace {

using testing::UnorderedElementsAre;

TEST(Roster, KnowsWhereTheRanksOfTheNewestWorldListen) {
  Roster roster(2, kPatience);
  form(roster, 2);
  EXPECT_EQ(roster.formed().generation, 1u);
  EXPECT_EQ(roster.formed().size, 2);
  EXPECT_TRUE(roster.formed().ranks.empty());
  roster.left(1, kStart, 5001);
  roster.left(0, kStart, 5000);
  ASSERT_EQ(roster.formed().ranks.size(), 2u);
  EXPECT_EQ(roster.formed().ranks[0].rank, 1);
  EXPECT_EQ(roster.formed().ranks[0].address, on("a").address);
  EXPECT_EQ(roster.formed().ranks[0].port, 5001);
  EXPECT_EQ(roster.formed().ranks[1].port, 5000);
  roster.joined(0, on("a", -1, 2), kStart);
  EXPECT_EQ(roster.formed().ranks.size(), 2u) << "until the next one starts";
  roster.joined(1, on("a", -1, 2), kStart);
  EXPECT_EQ(roster.formed().generation, 2u);
  EXPECT_TRUE(roster.formed().ranks.empty());
  roster.left(0, kStart);
  EXPECT_TRUE(roster.formed().ranks.empty()) << "it said that it listens nowhere";
}

// A rank leaves the start while the abort is on its way to it. The launcher must still find out where this rank
// listens.
TEST(Roster, WhoWasThroughWhenTheStartUpWasAbortedCanBeReached) {
  Roster roster(2, kPatience);
  form(roster, 2);
  roster.left(0, kStart, 5000);
  roster.aborted(-1, "enough");
  EXPECT_EQ(roster.formed().ranks.size(), 1u);
  roster.left(1, kStart, 5001);
  ASSERT_EQ(roster.formed().ranks.size(), 2u);
  EXPECT_EQ(roster.formed().ranks[1].port, 5001);
  form(roster, 2);
  EXPECT_TRUE(roster.formed().ranks.empty());
}

// A rank vanishes: its host has lost power, or its process is stopped. The server receives no event that shows this.
TEST(Roster, WhoVanishesAfterTheLastRoundDoesNotKeepTheNextWorldOut) {
  Roster roster(2, kPatience);
  form(roster, 2);
  roster.left(0, kStart, 5000);
  ASSERT_TRUE(roster.deadline());
  EXPECT_GE(*roster.deadline(), kStart + kPatience);
  EXPECT_TRUE(roster.expired().empty());
  EXPECT_EQ(roster.worlds_formed(), 1);
  EXPECT_EQ(roster.phase(), Roster::Phase::gathering);
  roster.left(1, kStart, 5001);  // this rank had only been stopped
  ASSERT_EQ(roster.formed().ranks.size(), 2u);
  EXPECT_EQ(roster.formed().ranks[1].port, 5001);
}

TEST(Roster, WhoVanishesBetweenTwoRoundsDoesNotKeepTheNextWorldOut) {
  for (const int rounds : {0, 1}) {
    Roster roster(2, kPatience);
    form(roster, 2);
    for (int round = 0; round < rounds; round++)
      for (const Roster::MemberId id : {0, 1}) roster.contributed(id, {"", kPatience}, kStart);
    ASSERT_TRUE(roster.deadline());
    const auto sends = roster.expired();
    EXPECT_EQ(failure(sends).rank, -1);
    EXPECT_THAT(failure(sends).message, testing::HasSubstr("the start-up does not progress"));
    EXPECT_EQ(roster.phase(), Roster::Phase::gathering);
  }
}

TEST(Roster, AnAbortEndsTheStartUpForThoseWhoAreThere) {
  Roster roster(3, kPatience);
  EXPECT_TRUE(roster.aborted(2, "enough").empty());
  roster.joined(4, on("a"), kStart);
  roster.joined(5, on("a"), kStart);
  const auto sends = roster.aborted(2, "enough");
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(4, 5));
  EXPECT_EQ(failure(sends).code, ErrorCode::aborted);
  EXPECT_EQ(failure(sends).rank, 2);
  EXPECT_EQ(failure(sends).message, "enough");
  EXPECT_EQ(roster.generation(), 2u);
}

}  // namespace
}  // namespace anello::rendezvous
