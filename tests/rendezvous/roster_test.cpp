#include "rendezvous/server/roster.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "rendezvous/protocol/describe.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"
#include "tests/rendezvous/rosters.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

Roster::Time after(int ms) {
  return kStart + milliseconds(ms);
}

TEST(Roster, AssignsWhenTheLastHasJoined) {
  Roster roster(0, kPatience);
  const auto sends = form(roster, 3);
  ASSERT_EQ(sends.size(), 3u);
  for (std::size_t i = 0; i < 3; i++) {
    EXPECT_THAT(sends[i].to, testing::ElementsAre(i));
    EXPECT_EQ(std::get<Assigned>(sends[i].reply).rank, int(i));
    EXPECT_EQ(std::get<Assigned>(sends[i].reply).generation, 1u);
  }
  EXPECT_EQ(roster.phase(), Roster::Phase::starting);
}

TEST(Roster, AssignsInOrderOfJoiningNotOfConnecting) {
  Roster roster(2, kPatience);
  roster.joined(9, on("a"), kStart);
  const auto sends = roster.joined(4, on("a"), kStart);
  EXPECT_THAT(sends[0].to, testing::ElementsAre(9));
  EXPECT_EQ(std::get<Assigned>(sends[0].reply).rank, 0);
}

TEST(Roster, AWorldOfOneStartsAtOnce) {
  Roster roster(0, kPatience);
  EXPECT_EQ(roster.joined(1, on("a", 0, 1), kStart).size(), 1u);
}

TEST(Roster, ExchangesRoundAfterRoundInOrderOfRank) {
  Roster roster(2, kPatience);
  roster.joined(7, on("a", 1), kStart);
  roster.joined(8, on("a", 0), kStart);
  for (int round = 0; round < 3; round++) {
    EXPECT_TRUE(roster.contributed(7, {"one"}, kStart).empty());
    const auto sends = roster.contributed(8, {text("zero ", round)}, kStart);
    ASSERT_EQ(sends.size(), 1u);
    EXPECT_THAT(sends[0].to, UnorderedElementsAre(7, 8));
    EXPECT_THAT(std::get<Gathered>(sends[0].reply).blobs, testing::ElementsAre(text("zero ", round), "one"));
  }
}

TEST(Roster, TheNextGenerationBeginsWhenAllHaveLeft) {
  Roster roster(2, kPatience);
  form(roster, 2);
  EXPECT_TRUE(roster.left(0, kStart).empty());
  EXPECT_EQ(roster.worlds_formed(), 0);
  EXPECT_TRUE(roster.left(1, kStart).empty());
  EXPECT_EQ(roster.worlds_formed(), 1);
  EXPECT_EQ(std::get<Assigned>(form(roster, 2)[1].reply).generation, 2u);
}

TEST(Roster, WhoComesTooLateIsTurnedAwayAlone) {
  Roster roster(2, kPatience);
  form(roster, 2);
  const auto sends = roster.joined(5, on("b"), kStart);
  EXPECT_THAT(sends[0].to, testing::ElementsAre(5));
  EXPECT_THAT(failure(sends).message, HasSubstr("the world of 2 is complete"));
  EXPECT_EQ(roster.members(), 2u);
  EXPECT_TRUE(roster.contributed(5, {""}, kStart).empty());
  EXPECT_TRUE(roster.disconnected(5, kStart).empty());
}

TEST(Roster, NobodyWaitsForARankThatHasExited) {
  for (const bool before : {true, false}) {
    Roster roster(3, kPatience);
    if (before) roster.exited(2);
    roster.exited(1);
    Roster::Sends sends = roster.joined(7, on("a", 1), kStart);
    if (!before) {
      EXPECT_TRUE(sends.empty()) << "rank 1 has joined";
      sends = roster.exited(2);
    }
    EXPECT_EQ(failure(sends).rank, 2);
    EXPECT_EQ(failure(sends).message, "rank 2 exited before it joined the others");
    EXPECT_THAT(sends[0].to, UnorderedElementsAre(7));
  }
}

TEST(Roster, ALoopbackAddressIsRefusedAcrossMachinesOnly) {
  const auto local = [](std::string host, std::string address) {
    Join join = on(std::move(host));
    join.address = std::move(address);
    return join;
  };
  Roster across(2, kPatience);
  across.joined(1, local("a", "127.0.0.1"), kStart);
  const auto sends = across.joined(2, local("b", "10.0.0.2"), kStart);
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(1, 2));
  EXPECT_THAT(failure(sends).message,
              AllOf(HasSubstr("on a is on the loopback address 127.0.0.1"), HasSubstr("on b at 10.0.0.2 and others")));
  Roster within(2, kPatience);
  within.joined(1, local("a", "::1"), kStart);
  EXPECT_EQ(within.joined(2, local("a", "127.0.0.1"), kStart).size(), 2u);
}

TEST(Roster, AnAddressThatTwoMachinesHaveIsRefused) {
  const auto behind_bridge = [](std::string host, int rank) {
    Join join = on(std::move(host), rank);
    join.address = "172.17.0.1";
    return join;
  };
  Roster across(3, kPatience);
  across.joined(1, behind_bridge("a", 0), kStart);
  across.joined(2, behind_bridge("a", 1), kStart);
  EXPECT_THAT(failure(across.joined(3, behind_bridge("b", 2), kStart)).message,
              AllOf(HasSubstr("and rank 2 (b, pid "), HasSubstr("have the same address 172.17.0.1"),
                    HasSubstr("set ANELLO_IFACE")));
}

TEST(Roster, SaysWhoIsMissing) {
  Roster roster(6, kPatience);
  EXPECT_EQ(roster.waiting(), "");
  for (const int rank : {0, 1, 3, 4}) roster.joined(unsigned(rank), on("a", rank), kStart);
  EXPECT_EQ(roster.waiting(), "waiting: 4 of 6 ranks have joined; missing ranks 2, 5");
  roster.joined(2, on("a", 2), kStart);
  roster.joined(5, on("a", 5), kStart);
  EXPECT_EQ(roster.waiting(), "");
}

TEST(Roster, MissingRanksAreNamedWhenTimeIsUp) {
  Roster roster(6, kPatience);
  roster.joined(1, on("a", 0), after(0));
  roster.joined(2, on("b", 4), after(30000));
  ASSERT_EQ(roster.deadline(), after(60000));
  const auto sends = roster.expired();
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(1, 2));
  EXPECT_EQ(failure(sends).message,
            "only 2 of 6 ranks joined within 60 s: missing ranks 1-3, 5; present: a (rank 0), b (rank 4)");
  EXPECT_EQ(failure(sends).code, ErrorCode::rendezvous);
  EXPECT_EQ(failure(sends).rank, -1);
  EXPECT_EQ(roster.deadline(), std::nullopt);
}

TEST(Roster, ARankThatIsMissingAloneIsAtFault) {
  Roster roster(3, kPatience);
  roster.joined(1, on("a", 0), kStart);
  roster.joined(2, on("b", 1), kStart);
  const auto sends = roster.expired();
  EXPECT_THAT(failure(sends).message, HasSubstr("missing rank 2"));
  EXPECT_EQ(failure(sends).rank, 2);
  // It belongs to the next start.
  EXPECT_THAT(roster.joined(3, on("b", 2), kStart), ::testing::IsEmpty());
}

TEST(Roster, UnnumberedMissingRanksAreCounted) {
  Roster roster(3, kPatience);
  roster.joined(1, on("a"), kStart);
  roster.refused("a wrong secret");
  roster.refused("another wrong secret");
  EXPECT_EQ(
      failure(roster.expired()).message,
      "only 1 of 3 ranks joined within 60 s: missing 2 ranks; present: a (1 rank); rejected connections: 2, the last "
      "one: another wrong secret");
  roster.joined(1, on("a"), kStart);
  roster.joined(2, on("b", 2), kStart);
  EXPECT_THAT(failure(roster.expired()).message,
              AllOf(HasSubstr("missing 1 rank; present: a (1 rank), b (rank 2)"),
                    HasSubstr("; the previous start-up failed: only 1 of 3"), Not(HasSubstr("rejected"))));
}

TEST(Roster, TheLeastPatientMemberSetsTheLimit) {
  Roster roster(3, kPatience);
  Join hasty = on("a");
  hasty.patience = milliseconds(1500);
  roster.joined(1, on("a"), after(0));
  roster.joined(2, hasty, after(1000));
  EXPECT_EQ(roster.deadline(), after(2500));
  EXPECT_THAT(failure(roster.expired()).message, HasSubstr("within 2.5 s"));
}

TEST(Roster, WhoHoldsUpAnExchangeIsNamed) {
  Roster roster(3, kPatience);
  form(roster, 3);
  roster.contributed(2, {"", milliseconds(5000)}, after(100));
  EXPECT_EQ(roster.deadline(), after(5100));
  const auto sends = roster.expired();
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(failure(sends).message, HasSubstr("waited 5 s for a (ranks 0, 1)"));
  EXPECT_EQ(failure(sends).rank, 0);
}

TEST(Roster, ADeathDuringStartUpEndsItForAll) {
  Roster gathering(3, kPatience);
  gathering.joined(1, on("a", 0), kStart);
  gathering.joined(2, on("b", 2), kStart);
  const auto early = gathering.disconnected(2, kStart);
  EXPECT_THAT(early[0].to, UnorderedElementsAre(1));
  EXPECT_THAT(failure(early).message, AllOf(HasSubstr("rank 2 (b, pid"), HasSubstr("lost its connection")));
  EXPECT_EQ(failure(early).rank, 2);

  Roster starting(2, kPatience);
  form(starting, 2);
  starting.contributed(0, {""}, kStart);
  const auto late = starting.disconnected(1, kStart);
  EXPECT_THAT(late[0].to, UnorderedElementsAre(0));
  EXPECT_THAT(failure(late).message, HasSubstr("rank 1 (a, pid"));
  EXPECT_TRUE(starting.disconnected(0, kStart).empty());
}

TEST(Roster, AFailureIsPassedOnInItsOwnWords) {
  Roster roster(2, kPatience);
  form(roster, 2);
  const auto sends = roster.failed(1, "no port is free", kStart);
  EXPECT_THAT(sends[0].to, UnorderedElementsAre(0, 1));
  EXPECT_THAT(failure(sends).message,
              AllOf(HasSubstr("rank 1 (a, pid"), HasSubstr("during start-up: no port is free")));
}

TEST(Roster, TurnsAreKept) {
  Roster early(2, kPatience);
  early.joined(1, on("a"), kStart);
  EXPECT_THAT(failure(early.contributed(1, {""}, kStart)).message, HasSubstr("a contribution out of turn"));
  Roster twice(2, kPatience);
  form(twice, 2);
  twice.contributed(0, {""}, kStart);
  EXPECT_THAT(failure(twice.contributed(0, {""}, kStart)).message, HasSubstr("a contribution out of turn"));
  Roster deserted(2, kPatience);
  form(deserted, 2);
  deserted.left(0, kStart);
  EXPECT_THAT(failure(deserted.contributed(1, {""}, kStart)).message, HasSubstr("left the rendezvous while rank 1"));
  Roster leaving(2, kPatience);
  form(leaving, 2);
  leaving.contributed(0, {""}, kStart);
  EXPECT_THAT(failure(leaving.left(1, kStart)).message, HasSubstr("left too early"));
}

TEST(Roster, ARoundIsBounded) {
  Roster roster(4096, kPatience);
  form(roster, 4096);
  Roster::Sends sends;
  unsigned sent = 0;
  while (sends.empty() && sent < 4096) sends = roster.contributed(sent++, {std::string(kMaxBlobBytes, 'x')}, kStart);
  EXPECT_THAT(failure(sends).message, HasSubstr("the contributions to one exchange have more than"));
  EXPECT_LT(sent, 4096u);
}

TEST(Describe, ListsAreBounded) {
  EXPECT_EQ(rank_list({5}), "rank 5");
  EXPECT_EQ(rank_list({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7, 8");
  std::vector<int> even;
  std::vector<Join> hosts;
  for (int i = 0; i < 1000; i++) even.push_back(2 * i), hosts.push_back(on(text("h", i)));
  EXPECT_THAT(rank_list(even), HasSubstr("28, 30 and 984 others"));
  EXPECT_THAT(present_list(hosts), HasSubstr("h15 (1 rank) and 984 other hosts"));
}

// A random history of a roster, checked against rules that must always hold. Prints the seed with which the history can
// be repeated.
class Life {
 public:
  explicit Life(unsigned seed) : random_(seed), size_(1 + int(random_() % 5)), roster_(size_, kPatience) {}

  void run() {
    for (int step = 0; step < 200; step++) {
      now_ += milliseconds(random_() % 3000);
      if (roster_.deadline() && *roster_.deadline() <= now_)
        expire();
      else
        act();
      ASSERT_EQ(roster_.members(), members_.size());
      ASSERT_TRUE(roster_.phase() == Roster::Phase::starting || members_.size() < std::size_t(size_));
    }
  }

  int worlds_formed() const { return roster_.worlds_formed(); }

 private:
  struct Member {
    int rank = -1;
    bool contributed = false;
  };

  // Lets the limit pass. No message is sent, so the world counts as started.
  void expire() {
    const auto sends = roster_.expired();
    if (sends.empty()) members_.clear();
    take(sends);
  }
  Roster::MemberId any() { return std::next(members_.begin(), int(random_() % members_.size()))->first; }
  void act() {
    if (members_.empty() || random_() % 3 == 0) {
      const Roster::MemberId id = next_++;
      Join join = on(text("host", random_() % 3), random_() % 8 == 0 ? int(random_() % 6) : -1);
      if (roster_.phase() == Roster::Phase::gathering) members_.emplace(id, Member{});
      take(roster_.joined(id, join, now_));
      return;
    }
    const Roster::MemberId id = any();
    if (roster_.phase() == Roster::Phase::starting && random_() % 4 != 0) {
      members_[id].contributed = true;
      take(roster_.contributed(id, {text(id)}, now_));
    } else if (random_() % 6 == 0) {
      members_.erase(id);
      take(roster_.disconnected(id, now_));
    } else if (random_() % 4 == 0) {
      const auto sends = roster_.left(id, now_);
      if (sends.empty()) members_.erase(id);
      take(sends);
    }
  }

  // Each message goes only to its receivers, and a failure goes to all members.
  void take(const Roster::Sends& sends) {
    for (const auto& send : sends) {
      if (std::holds_alternative<ComeAgain>(send.reply)) {
        ASSERT_FALSE(members_.contains(send.to.at(0)));
      } else if (std::holds_alternative<Failed>(send.reply)) {
        if (send.to.size() == 1 && !members_.contains(send.to[0])) continue;  // one too many
        ASSERT_EQ(send.to.size(), members_.size());
        for (const auto id : send.to) ASSERT_TRUE(members_.contains(id));
        members_.clear();
      } else if (const auto* assigned = std::get_if<Assigned>(&send.reply)) {
        ASSERT_EQ(sends.size(), std::size_t(size_));
        members_.at(send.to.at(0)).rank = assigned->rank;
      } else {
        const auto& blobs = std::get<Gathered>(send.reply).blobs;
        ASSERT_EQ(blobs.size(), members_.size());
        for (const auto id : send.to) {
          Member& member = members_.at(id);
          ASSERT_TRUE(member.contributed);
          ASSERT_EQ(blobs.at(std::size_t(member.rank)), text(id));
          member.contributed = false;
        }
      }
    }
  }

  std::mt19937 random_;
  int size_;
  Roster roster_;
  Roster::Time now_{};
  Roster::MemberId next_ = 0;
  std::map<Roster::MemberId, Member> members_;
};

TEST(Roster, InvariantsHoldInRandomLives) {
  int formed = 0;
  for (unsigned seed = 0; seed < 400; seed++) {
    SCOPED_TRACE(text("seed ", seed));
    Life life(seed);
    life.run();
    if (HasFatalFailure()) return;
    formed += life.worlds_formed();
  }
  EXPECT_GT(formed, 400) << "lives that never succeed show little";
}

}  // namespace
}  // namespace anello::rendezvous
