// Ranks that join when a start has failed or is complete.
#include <gmock/gmock.h>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/roster.hpp"
#include "tests/rendezvous/rosters.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Ranks 0 and 1 exit as a consequence of rank 2's exit, so they are not to blame.
TEST(Roster, WhoComesLateReceivesTheFirstFailure) {
  for (const bool had_joined : {true, false}) {
    Roster roster(4, kPatience);
    roster.joined(10, on("a", 0), kStart);
    roster.joined(11, on("a", 1), kStart);
    if (had_joined) roster.joined(12, on("a", 2), kStart);
    const Failed first = failure(had_joined ? roster.disconnected(12, kStart) : roster.exited(2));
    EXPECT_EQ(first.rank, 2);
    for (const int rank : {0, 1, 2}) EXPECT_TRUE(roster.exited(rank).empty());
    const Failed late = failure(roster.joined(13, on("a", 3), kStart));
    EXPECT_EQ(late.rank, 2);
    EXPECT_EQ(late.message, first.message);
  }
}

TEST(Roster, WhoHasLeftIsToComeAgainForItsNextWorld) {
  Roster roster(2, kPatience);
  form(roster, 2);
  roster.left(0, kStart);
  EXPECT_TRUE(std::holds_alternative<ComeAgain>(roster.joined(5, on("a", 0), kStart)[0].reply));
  EXPECT_EQ(failure(roster.joined(6, on("a", 1), kStart)).rank, 1) << "it has not left";
  EXPECT_EQ(roster.members(), 1u);
}

TEST(Roster, AConclusionReachesEachRankOnce) {
  Roster roster(3, kPatience);
  roster.joined(10, on("a", 0), kStart);
  const Failed why{ErrorCode::configuration, 0, "it is all over"};
  EXPECT_EQ(failure(roster.conclude(why, 0)).message, why.message);
  EXPECT_EQ(failure(roster.joined(11, on("a", 1), kStart)).message, why.message);
  EXPECT_FALSE(roster.all_informed());
  EXPECT_EQ(failure(roster.joined(12, on("a", 2), kStart)).message, why.message);
  EXPECT_TRUE(roster.all_informed());
}

// Without a launcher, only the report of the rank that fails can end the wait of the other ranks.
TEST(Roster, ARankThatFailsBeforeTheOthersJoinEndsTheStartForThemToo) {
  for (const bool had_joined : {true, false}) {
    Roster roster(3, kPatience);
    if (had_joined) roster.joined(11, on("a", 1), kStart);
    const Failed why =
        failure(had_joined ? roster.failed(11, "no memory is left", kStart) : roster.ended_early(1, kStart));
    EXPECT_EQ(why.rank, 1);
    for (const int rank : {0, 2}) {
      const Failed late = failure(roster.joined(20 + unsigned(rank), on("a", rank), kStart));
      EXPECT_EQ(late.rank, 1);
      EXPECT_EQ(late.message, why.message);
    }
    EXPECT_EQ(roster.members(), 0u);
    for (const int rank : {0, 1, 2})
      EXPECT_EQ(failure(roster.joined(30 + unsigned(rank), on("a", rank), kStart)).message, "no failure") << "anew";
    EXPECT_EQ(roster.phase(), Roster::Phase::starting);
  }
}

TEST(Roster, AFailureConcernsItsOwnStartOnly) {
  for (const auto& [rank, later] : {std::pair(1, 0), std::pair(2, 120000)}) {
    Roster roster(3, kPatience);
    roster.joined(11, on("a", 1), kStart);
    roster.failed(11, "no memory is left", kStart);
    const auto now = kStart + std::chrono::milliseconds(later);
    EXPECT_TRUE(roster.joined(12, on("a", rank), now).empty()) << rank;
    EXPECT_TRUE(roster.joined(13, on("a", 0), now).empty()) << rank;
    EXPECT_EQ(roster.members(), 2u);
  }
}

TEST(Roster, AProcessThatBeganAfterAFailureBelongsToAnotherStart) {
  using std::chrono::milliseconds;
  const auto failed_at = kStart + milliseconds(5000), now = failed_at + milliseconds(1000);
  const auto of_age = [](int rank, int age) {
    Join join = on("a", rank);
    join.age = milliseconds(age);
    return join;
  };
  Roster roster(3, kPatience);
  roster.joined(11, on("a", 1), kStart);
  const Failed why = failure(roster.failed(11, "no memory is left", failed_at));
  EXPECT_TRUE(roster.joined(20, of_age(0, 900), now).empty());
  EXPECT_TRUE(roster.joined(21, of_age(1, 900), now).empty());
  EXPECT_EQ(failure(roster.joined(22, of_age(2, 1000), now)).message, why.message) << "late";
  EXPECT_EQ(roster.joined(23, of_age(2, 900), now).size(), 3u);
  EXPECT_EQ(roster.phase(), Roster::Phase::starting);
}

TEST(Roster, ARankThatIsConnectedAgainHasNotEnded) {
  Roster roster(3, kPatience);
  roster.joined(10, on("a", 0), kStart);
  roster.joined(11, on("a", 1), kStart);
  EXPECT_TRUE(roster.ended_early(1, kStart).empty());
  EXPECT_EQ(failure(roster.ended_early(2, kStart)).rank, 2);
}

TEST(Roster, AMemberMayReportTheFailureOfAnother) {
  Roster roster(3, kPatience);
  form(roster, 3);
  const Failed why = failure(roster.failed(0, "too many open files", kStart, 1));
  EXPECT_EQ(why.rank, 1);
  EXPECT_THAT(why.message, AllOf(::testing::StartsWith("rank 1 (a, pid "), HasSubstr("too many open files")));
  form(roster, 3);
  EXPECT_EQ(failure(roster.failed(0, "too many open files", kStart)).rank, 0);
  form(roster, 3);
  roster.left(1, kStart);
  EXPECT_EQ(failure(roster.failed(0, "it died", kStart, 1)).message, "rank 1 failed during start-up: it died");
}

// A second process with the same number belongs to the next start, which this server must not block.
TEST(Roster, AConclusionMakesRoomForTheNextStart) {
  Roster roster(3, kPatience);
  roster.joined(10, on("a", 0), kStart);
  roster.conclude({ErrorCode::configuration, 0, "it is all over"}, 0);
  EXPECT_TRUE(std::holds_alternative<ComeAgain>(roster.joined(13, on("a", 0), kStart)[0].reply));
  EXPECT_TRUE(roster.all_informed());
}

TEST(Describe, DoubtsThatRanksOfTwoParentsBelongTogether) {
  const auto ranks = [](std::vector<std::uint32_t> parents) {
    std::vector<Join> all;
    for (const std::uint32_t parent : parents) {
      all.push_back(on("a", int(all.size())));
      all.back().parent = parent;
    }
    return started_apart(all);
  };
  EXPECT_THAT(ranks({7, 9, 9, 9}),
              AllOf(HasSubstr("rank 0 by process 7, ranks 1-3 by process 9"), HasSubstr("MASTER_PORT")));
  EXPECT_EQ(ranks({7, 7, 7}), "");
  EXPECT_EQ(ranks({7, 8, 9}), "") << "for example, each in a terminal of its own";
}

TEST(Roster, AFailureIsForgottenWhenAWorldHasFormed) {
  Roster roster(2, kPatience);
  roster.joined(10, on("a", 0), kStart);
  roster.joined(11, on("a", 1), kStart);
  roster.disconnected(11, kStart);
  roster.joined(12, on("a", 0), kStart);
  roster.joined(13, on("a", 1), kStart);
  roster.left(12, kStart);
  roster.left(13, kStart);
  roster.exited(0);
  EXPECT_EQ(failure(roster.joined(14, on("a", 1), kStart)).message, "rank 0 exited before it joined the others");
}

}  // namespace
}  // namespace anello::rendezvous
