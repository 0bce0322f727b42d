// Who may go on without the server: the rules of Inheritance and Lineage.
#include "rendezvous/server/inheritance.hpp"

#include <gmock/gmock.h>

#include <barrier>
#include <thread>

#include "rendezvous/elastic/search_time.hpp"
#include "rendezvous/server/heir.hpp"
#include "tests/rendezvous/peers.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Finding = Inheritance::Finding;

Inheritance of(std::vector<std::uint32_t> pids) {
  Lineage lineage;
  lineage.starts({.generation = 1, .rank = 0}, peers(std::move(pids)), {}, {});
  return {lineage, milliseconds(5000)};
}

TEST(Inheritance, MoreThanHalfMustCome) {
  const Inheritance three = of({1, 2, 3}), four = of({1, 2, 3, 4});
  EXPECT_TRUE(three.allows({0, 2}));
  EXPECT_FALSE(three.allows({1}));
  EXPECT_FALSE(four.allows({0, 1}));
  EXPECT_TRUE(four.allows({0, 1, 3}));
}

TEST(Inheritance, LessIsEnoughIfAllOthersAreDead) {
  Inheritance four = of({1, 2, 3, 4});
  for (const std::uint32_t pid : {2u, 3u}) four.found(peers({pid})[0], Finding::dead, {});
  EXPECT_FALSE(four.allows({0}));
  four.found(peers({4})[0], Finding::gone, {});
  EXPECT_TRUE(four.awaits_nobody({0}));
  EXPECT_FALSE(four.allows({0}));
  four.found(peers({4})[0], Finding::dead, {});
  EXPECT_TRUE(four.allows({0}));
}

TEST(Inheritance, AProcessThatAnswersIsAwaitedAndASilentOneForAWhile) {
  Inheritance two = of({1, 2});
  const Peer other = peers({2})[0];
  EXPECT_FALSE(two.awaits_nobody({0}));
  two.found(other, Finding::silent, {});
  two.found(other, Finding::silent, Time() + milliseconds(4999));
  EXPECT_FALSE(two.awaits_nobody({0}));
  two.found(other, Finding::silent, Time() + milliseconds(5000));
  EXPECT_TRUE(two.awaits_nobody({0}));
  EXPECT_THAT(two.missing({0}), HasSubstr("rank 1 (10.0.0.1 pid 2, which cannot be reached)"));
  two.found(other, Finding::present, Time() + milliseconds(5001));
  EXPECT_FALSE(two.awaits_nobody({0}));
}

// Until it is certain that all ranks have made the new world, ranks of the last world that have not made the new world
// could go on without it.
TEST(Inheritance, WhileAWorldStartsTheLastOneMustAgreeToo) {
  Lineage lineage;
  lineage.starts({.generation = 1, .rank = 0}, peers({1, 2, 3}), {}, {});
  lineage.trains();
  lineage.starts({.generation = 2, .rank = 0}, peers({1, 4, 5, 6}), {}, {});
  EXPECT_FALSE(Inheritance(lineage, milliseconds(0)).allows({0, 1, 2, 3}));
  lineage.trains();
  EXPECT_TRUE(Inheritance(lineage, milliseconds(0)).allows({0, 1, 2, 3}));
}

// Lets two ranks introduce themselves. `worlds`: the worlds of rank 0. Returns the introductions that each rank has
// received.
std::vector<Introductions> introduced(const Peers& both, const std::vector<Peers>& worlds) {
  std::vector<std::string> blobs(2);
  std::barrier all_are_there(2);
  const auto exchange = [&](std::size_t rank, std::string blob) {
    EXPECT_LE(blob.size(), kMaxBlobBytes);
    blobs[rank] = std::move(blob);
    all_are_there.arrive_and_wait();
    std::vector<std::string> got = blobs;
    all_are_there.arrive_and_wait();
    return got;
  };
  std::vector<Introductions> out(2);
  const auto introduce_rank = [&](std::size_t rank) {
    out[rank] = introduce(both[rank], rank == 0 ? worlds : std::vector<Peers>(),
                          [&](std::string blob) { return exchange(rank, std::move(blob)); });
  };
  std::thread other([&] { introduce_rank(1); });
  introduce_rank(0);
  other.join();
  return out;
}

TEST(Inheritance, ANewcomerTakesTheWorldsOfRank0) {
  const Peers both = peers({1, 7});
  const Introductions all = introduced(both, {peers({1, 2, 3})}).at(1);
  EXPECT_EQ(all.peers, both);
  Lineage newcomer;
  newcomer.starts({.generation = 2, .rank = 1}, both, all.earlier, {});
  EXPECT_FALSE(Inheritance(newcomer, milliseconds(0)).allows({0, 1}));
}

// Each start that fails adds a world until the job trains again.
TEST(Inheritance, TheWorldsOfManyFailedStartsTakeSeveralExchanges) {
  std::vector<Peers> worlds;
  for (std::uint32_t start = 0; start < 70; start++) {
    Peers world;
    for (std::uint32_t rank = 0; rank < 1000; rank++)
      world.push_back({"2001:db8:1234:5678:9abc:def0:1234:5678", std::uint16_t(rank), start + rank});
    worlds.push_back(std::move(world));
  }
  const Peers both = peers({1, 7});
  for (const Introductions& one : introduced(both, worlds)) {
    EXPECT_EQ(one.peers, both);
    EXPECT_TRUE(one.earlier == worlds);
  }
}

TEST(Inheritance, APartOfTheWorldsThatIsMissingIsAnError) {
  int exchanges = 0;
  const auto cut_off = [&](std::string blob) {
    return std::vector<std::string>{exchanges++ == 0 ? std::move(blob) : std::string()};
  };
  EXPECT_THROW(introduce(peers({1})[0], std::vector<Peers>(40, Peers(1000, peers({1})[0])), cut_off), Error);
  EXPECT_EQ(exchanges, 2);
}

Heir heir_of_rank0(Time since, Time begin) {
  Heir heir({.silence = milliseconds(5000)}, begin);
  heir.lineage.starts({.generation = 1, .rank = 0}, peers({1, 2}), {}, since);
  return heir;
}

TEST(Heir, TheEndOfAProcessProvesNothingIfThisOneWasStoppedSinceItsWorldBegan) {
  const Peer other = peers({2})[0];
  const Time begin{};
  Heir heir = heir_of_rank0(begin, begin);
  EXPECT_EQ(heir.finding(other, Look::Outcome::no_entry, begin + milliseconds(3000)), Finding::dead);
  EXPECT_EQ(heir.finding(other, Look::Outcome::no_entry, begin + milliseconds(6001)), Finding::gone);
  EXPECT_EQ(heir.finding(other, Look::Outcome::no_entry, begin + milliseconds(6002)), Finding::gone);
  heir.lineage.since = begin + milliseconds(6100);
  EXPECT_EQ(heir.finding(other, Look::Outcome::no_entry, begin + milliseconds(6200)), Finding::dead);
}

TEST(Heir, AProcessThatDoesNotListenMayComeLater) {
  Heir heir = heir_of_rank0({}, {});
  Peer deaf = peers({2})[0];
  deaf.port = 0;
  EXPECT_EQ(heir.finding(deaf, Look::Outcome::no_entry, {}), Finding::silent);
}

// Two servers may begin worlds with the same number, and another process may listen at the address of a process that
// has ended.
TEST(Heir, OnlyAProcessOfItsOwnWorldComesToIt) {
  Heir heir({}, {}), other({}, {});
  heir.lineage.starts({.generation = 5, .rank = 1, .incarnation = 77}, peers({1, 2}), {}, {});
  other.lineage.starts({.generation = 5, .rank = 0, .incarnation = 77}, peers({1, 2}), {}, {});
  EXPECT_EQ(heir.objection(other.claim(1)), "");
  EXPECT_EQ(heir.objection(other.claim(-1)), "");
  EXPECT_EQ(heir.objection(other.claim(0)), "this process is rank 1 of world 5, and not rank 0");
  other.lineage.incarnation = 78;
  EXPECT_EQ(heir.objection(other.claim(1)), "this process's world 5 was begun by another server");
  other.lineage.generation = 6;
  EXPECT_EQ(heir.objection(other.claim(1)), "this process has an older world");
  other.lineage.generation = 4;
  EXPECT_EQ(heir.objection(other.claim(1)), "the others have gone on without this process, in world 5");
  EXPECT_EQ(heir.rank_of(peers({2})[0]), 1);
  EXPECT_EQ(heir.rank_of(peers({3})[0]), -1);
}

TEST(SearchTime, OneAddressGetsMoreTimeInEachSearch) {
  elastic::SearchTime time(milliseconds(60000), milliseconds(500), milliseconds(1500));
  for (const int each : {500, 1000, 1500, 1500}) EXPECT_EQ(time.for_each_address(), milliseconds(each));
  time.spend(milliseconds(59000));
  EXPECT_EQ(time.left(), milliseconds(1000));
  time.spend(milliseconds(2000));
  EXPECT_EQ(time.left(), milliseconds(0));
  time.begin_anew();
  EXPECT_EQ(time.for_each_address(), milliseconds(500));
  EXPECT_EQ(time.left(), milliseconds(60000));
}

}  // namespace
}  // namespace anello::rendezvous
