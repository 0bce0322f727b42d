// Ranks that cannot be part of one world.
#include <gmock/gmock.h>

#include "tests/rendezvous/rosters.hpp"

namespace anello::rendezvous {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(Roster, TwoClaimantsOfARankEndTheStartUpAndAreNamed) {
  Roster roster(4, kPatience);
  Join first = on("a", 1), second = on("b", 1);
  first.pid = 1234;
  second.pid = 4242;
  second.parent = 77;
  roster.joined(1, first, kStart);
  roster.joined(2, on("c", 2), kStart);
  const auto sends = roster.joined(3, second, kStart);
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(1, 2, 3));
  EXPECT_THAT(failure(sends).message,
              AllOf(HasSubstr("rank 1 is claimed twice: by a (pid 1234,"),
                    HasSubstr("address 10.0.0.97) and by b (pid 4242, started by process 77, address 10.0.0.98)"),
                    HasSubstr("another job at the same rendezvous"), HasSubstr("ANELLO_JOB, MASTER_PORT")));
  EXPECT_EQ(failure(sends).code, ErrorCode::configuration);
  EXPECT_EQ(roster.members(), 0u);
}

// The likeliest cause is a restart.
TEST(Roster, ASecondClaimantOfAStartingWorldIsRefusedAlone) {
  Roster roster(2, kPatience);
  roster.joined(1, on("a", 0), kStart);
  roster.joined(2, on("b", 1), kStart);
  const auto sends = roster.joined(3, on("c", 1), kStart);
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(3));
  EXPECT_THAT(failure(sends).message,
              AllOf(HasSubstr("complete and starting; if this process was restarted, that was too early; otherwise "
                              "rank 1 is claimed twice: by b (pid"),
                    HasSubstr("and by c (pid")));
  EXPECT_EQ(roster.members(), 2u);
}

TEST(Roster, SizesMustAgree) {
  Roster by_first(0, kPatience);
  by_first.joined(1, on("a", 0, 4), kStart);
  EXPECT_THAT(failure(by_first.joined(2, on("b", 1, 8), kStart)).message,
              AllOf(HasSubstr("rank 1 (b, pid"), HasSubstr("world of 8, but rank 0 (a, pid"), HasSubstr("expects 4")));
  Roster by_server(2, kPatience);
  EXPECT_THAT(failure(by_server.joined(1, on("a", 0, 4), kStart)).message,
              HasSubstr("a world of 4, but the rendezvous server expects 2"));
}

TEST(Roster, SomebodyMustKnowTheSize) {
  Roster roster(0, kPatience);
  EXPECT_THAT(failure(roster.joined(1, on("a"), kStart)).message, HasSubstr("set ANELLO_SIZE"));
  EXPECT_TRUE(roster.joined(2, on("a", -1, 2), kStart).empty());
  EXPECT_EQ(roster.joined(3, on("a"), kStart).size(), 2u);
}

TEST(Roster, ARankMustBeBelowTheSize) {
  Roster roster(2, kPatience);
  EXPECT_THAT(failure(roster.joined(1, on("a", 2), kStart)).message, HasSubstr("the ranks of this world are 0 to 1"));
}

}  // namespace
}  // namespace anello::rendezvous
