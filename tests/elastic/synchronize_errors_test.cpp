// Synchronizations that fail: no rank has the state, entries differ, or a rank ends the world in the middle.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "ring/elastic/report.hpp"
#include "ring/elastic/stripes.hpp"
#include "ring/elastic/transfer.hpp"
#include "tests/elastic/ranks.hpp"

namespace anello::elastic {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Errors = std::vector<std::optional<Error>>;
constexpr std::size_t kWeights = 1000;

// The number of bytes of the reports that a rank receives.
std::uint64_t reports_bytes(int ranks) {
  constexpr std::uint64_t kReportBytes = 3 + 8 + 16;
  return kReportBytes * std::uint64_t(ranks - 1);
}

void expect_each(const Errors& errors, ErrorCode code, int rank, const testing::Matcher<std::string>& message) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), code);
    EXPECT_EQ(error->rank(), rank);
    EXPECT_THAT(error->message(), message);
  }
}

TEST(SynchronizeErrors, NewcomersCannotGoOnWithAJobThatHasBegun) {
  const Ranks all = ranks(newcomer(1), newcomer(2));
  expect_each(synchronize(all, true), ErrorCode::rendezvous, -1, HasSubstr("from a checkpoint"));
  EXPECT_FALSE(all[0]->state.holds());
  EXPECT_TRUE(all[1]->state.clean());
  EXPECT_EQ(all[1]->step, 2);
}

TEST(SynchronizeErrors, OneRankRemembersThatTheJobHasBegun) {
  const Ranks all = ranks(newcomer(1), newcomer(2));
  const auto told = told_on_all_ranks(
      2, [&](World& world) { synchronize(world, all[std::size_t(world.rank())]->state, world.rank() == 1); });
  expect_each({told[0].error, told[1].error}, ErrorCode::rendezvous, -1, HasSubstr("from a checkpoint"));
}

// Gives each rank a further entry, which differs on rank 2, and expects an error that names this entry.
void expect_mismatch(const std::function<void(Rank&)>& usual, const std::function<void(Rank&)>& odd,
                     const std::string& message) {
  const Ranks all = ranks(holder(7, 2), holder(7, 2), newcomer(1));
  usual(*all[0]);
  usual(*all[1]);
  odd(*all[2]);
  expect_each(synchronize(all, true), ErrorCode::mismatch, 2, message);
  EXPECT_TRUE(all[0]->state.clean());
  EXPECT_TRUE(all[2]->state.clean()) << "nothing has arrived";
  EXPECT_EQ(all[2]->weights[0], std::byte(1));
}

TEST(SynchronizeErrors, AnotherSize) {
  std::vector<std::byte> some(8), more(16);
  expect_mismatch([&](Rank& rank) { rank.state.add("m", some); }, [&](Rank& rank) { rank.state.add("m", more); },
                  "entry 4 of the state differs: 'm' (8 bytes) on rank 0, 'm' (16 bytes) on rank 2");
}

TEST(SynchronizeErrors, AnotherName) {
  std::vector<std::byte> some(8);
  expect_mismatch([&](Rank& rank) { rank.state.add("m", some); }, [&](Rank& rank) { rank.state.add("v", some); },
                  "entry 4 of the state differs: 'm' (8 bytes) on rank 0, 'v' (8 bytes) on rank 2");
}

TEST(SynchronizeErrors, AnotherOrder) {
  std::vector<std::byte> some(8), more(16);
  const auto add = [](Rank& rank, const char* name, std::vector<std::byte>& bytes) { rank.state.add(name, bytes); };
  expect_mismatch([&](Rank& rank) { add(rank, "m", some), add(rank, "v", more); },
                  [&](Rank& rank) { add(rank, "v", more), add(rank, "m", some); },
                  "entry 4 of the state differs: 'm' (8 bytes) on rank 0, 'v' (16 bytes) on rank 2");
}

TEST(SynchronizeErrors, AMissingEntry) {
  std::vector<std::byte> some(8);
  expect_mismatch([&](Rank& rank) { rank.state.add("m", some); }, [](Rank&) {},
                  "entry 4 of the state differs: 'm' (8 bytes) on rank 0, none on rank 2");
}

TEST(SynchronizeErrors, AnotherKind) {
  std::vector<std::byte> some(8);
  expect_mismatch([&](Rank& rank) { rank.state.add("m", some); },
                  [](Rank& rank) {
                    rank.state.add_small(
                        "m", [] { return std::string(8, '0'); }, [](std::string_view) {});
                  },
                  "entry 4 of the state differs: 'm' (8 bytes) on rank 0, 'm' (small) on rank 2");
}

TEST(SynchronizeErrors, AFlippedBitOfASurvivor) {
  const Ranks all = ranks(holder(7, 2), holder(7, 2), holder(7, 2));
  all[1]->weights[999] ^= std::byte(1);
  expect_each(synchronize(all, true), ErrorCode::diverged, 1,
              AllOf(HasSubstr("entry 'weights' of the state differs at revision 2: rank 1 has hash "),
                    HasSubstr("ranks 0, 2 have hash ")));
  for (const auto& rank : all) EXPECT_TRUE(rank->state.clean());
}

TEST(SynchronizeErrors, ASmallEntryOfASurvivor) {
  const Ranks all = ranks(holder(7, 2), newcomer(1), holder(7, 2), holder(7, 2));
  all[3]->step = 8;
  expect_each(synchronize(all, true), ErrorCode::diverged, 3, HasSubstr("entry 'step' of the state"));
  EXPECT_FALSE(all[1]->state.clean()) << "it has what may be wrong";
  EXPECT_FALSE(all[1]->state.holds());
  EXPECT_EQ(all[1]->state.revision(), 0u);
}

Errors compare_all(const Ranks& all) {
  Errors errors;
  for (const Told& told :
       told_on_all_ranks(int(all.size()), [&](World& world) { compare(world, all[std::size_t(world.rank())]->state); }))
    errors.push_back(told.error);
  return errors;
}

TEST(SynchronizeErrors, AComparisonAfterACommitFindsWhatDiffers) {
  const Ranks all = ranks(holder(7, 2), holder(7, 2), holder(7, 2));
  expect_in_order(compare_all(all));
  all[2]->weights[0] ^= std::byte(1);
  expect_each(compare_all(all), ErrorCode::diverged, 2,
              AllOf(HasSubstr("entry 'weights' of the state differs at revision 2: rank 2 has hash "),
                    HasSubstr("their programs have computed different values")));
  all[2]->weights[0] ^= std::byte(1);
  all[0]->step = 8;
  expect_each(compare_all(all), ErrorCode::diverged, 0, HasSubstr("entry 'step' of the state"));
}

TEST(SynchronizeErrors, AreNotLookedForWithoutVerification) {
  const Ranks all = ranks(holder(7, 2), holder(7, 2), newcomer(1));
  all[1]->weights[999] ^= std::byte(1);
  expect_in_order(synchronize(all, true, false));
  all[0]->expect(7, 2);
  all[2]->expect(7, 2);
}

TEST(SynchronizeErrors, ALoadThatLosesItsText) {
  const Ranks all = ranks(holder(7, 2), newcomer(1));
  int kept = 3;
  const auto add = [&](Rank& rank, int value, const std::function<void(std::string_view)>& load) {
    rank.state.add_small(
        "rate", [value] { return std::to_string(value); }, load);
  };
  add(*all[0], 3, [](std::string_view) {});
  add(*all[1], 4, [&](std::string_view text) { kept = std::stoi(std::string(text)); });
  expect_each(synchronize(all, true), ErrorCode::diverged, 1, HasSubstr("entry 'rate' of the state"));
  EXPECT_EQ(kept, 3);
  EXPECT_FALSE(all[1]->state.clean());
  EXPECT_TRUE(all[0]->state.clean());
}

TEST(SynchronizeErrors, ALoadThatThrows) {
  const Ranks all = ranks(holder(7, 2), newcomer(1));
  for (const auto& rank : all)
    rank->state.add_small(
        "rate", [] { return std::string("3"); }, [](std::string_view) { throw std::runtime_error("no such rate"); });
  EXPECT_THAT([&] { synchronize(all, true); }, testing::ThrowsMessage<std::runtime_error>(HasSubstr("no such rate")));
  EXPECT_FALSE(all[1]->state.clean());
  EXPECT_FALSE(all[1]->state.holds());
  all[0]->expect(7, 2);
}

// Takes part in a synchronization up to the transfer; a source sends nothing. Ends the world when the rank of the other
// world object has received `bytes` bytes of the state.
void break_off(World& world, Rank& rank, bool begun, const std::atomic<const World*>& other, std::uint64_t bytes) {
  const Contents& state = StateAccess::contents(rank.state);
  const Reports reports = gather_reports(world, report_of(state, manifest_of(state, true)), begun);
  const Decision decision = decide(reports.by_rank, reports.begun);
  std::vector<Bytes> memory;
  for (const Entry& each : state.entries) memory.push_back(each.memory);
  std::vector<Group> groups;
  if (std::ranges::binary_search(decision.receivers, world.rank())) groups = transfer(world, decision, memory);
  const std::uint64_t before = reports_bytes(world.size());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (other.load()->counters().received_bytes < before + bytes && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(other.load()->counters().received_bytes, before + bytes);
  world.abort("the middle is reached");
  world.barrier();
}

// Synchronizes the ranks. `breaker` ends the world when `receiver` has received `bytes` bytes of the state.
Errors synchronize_halfway(const Ranks& all, int breaker, int receiver, bool begun, std::uint64_t bytes = kWeights) {
  std::atomic<const World*> watched = nullptr;
  Errors errors;
  for (const Told& told : told_on_all_ranks(int(all.size()), [&](World& world) {
         Rank& rank = *all[std::size_t(world.rank())];
         if (world.rank() == receiver) watched = &world;
         world.barrier();
         if (world.rank() == breaker)
           break_off(world, rank, begun, watched, bytes);
         else
           synchronize(world, rank.state, begun);
       }))
    errors.push_back(told.error);
  return errors;
}

TEST(SynchronizeErrors, InTheMiddleAreHealedByTheNextWorld) {
  Ranks all = ranks(newcomer(1), holder(7, 2), newcomer(3));
  expect_each(synchronize_halfway(all, 2, 0, true), ErrorCode::aborted, 2, HasSubstr("the middle is reached"));
  EXPECT_FALSE(all[0]->state.clean());
  EXPECT_FALSE(all[0]->state.holds());
  EXPECT_EQ(all[0]->state.revision(), 0u);
  all[1]->expect(7, 2);

  expect_in_order(synchronize(all, true));
  for (const auto& rank : all) rank->expect(7, 2);

  all.erase(all.begin() + 1);  // the former receivers are sources now
  expect_in_order(synchronize(all, true));
}

TEST(SynchronizeErrors, InTheMiddleLeaveNothingWithoutTheSource) {
  Ranks all = ranks(holder(7, 2), newcomer(1), newcomer(3));
  synchronize_halfway(all, 2, 1, true);
  all.erase(all.begin());
  expect_each(synchronize(all, true), ErrorCode::rendezvous, -1, HasSubstr("rank 0 has only a part of it"));
}

// One of two sources ends after the receivers have got the other source's part. The test is made with each of the two
// sources.
TEST(SynchronizeErrors, ASourceThatEndsInTheMiddleLeavesNothingHalfWritten) {
  constexpr std::size_t kLarge = 4 * kStripeBlock;
  for (const int breaker : {0, 1}) {
    Ranks all = ranks(holder(7, 2, kLarge), holder(7, 2, kLarge), newcomer(1, kLarge), newcomer(3, kLarge));
    expect_each(synchronize_halfway(all, breaker, 3, true, kStripeBlock), ErrorCode::aborted, breaker,
                HasSubstr("the middle is reached"));
    all[std::size_t(1 - breaker)]->expect(7, 2);
    for (const int receiver : {2, 3}) {
      const Rank& its = *all[std::size_t(receiver)];
      EXPECT_FALSE(its.state.clean() || its.state.holds());
      const auto arrived = std::ranges::count(its.weights, std::byte(7));
      EXPECT_TRUE(arrived > 0 && std::size_t(arrived) < kLarge) << arrived;
    }
    all.erase(all.begin() + breaker);
    expect_in_order(synchronize(all, true));
    for (const auto& rank : all) rank->expect(7, 2);
  }
}

// Rank 0 has loaded a checkpoint, and ends while it sends this state. A process that has only initial values replaces
// rank 0.
TEST(SynchronizeErrors, AJobDoesNotBeginWithTheValuesOfAReplacement) {
  Ranks all = ranks(newcomer(7), newcomer(1), newcomer(1));
  synchronize_halfway(all, 2, 1, false);
  EXPECT_TRUE(all[0]->state.clean());
  EXPECT_FALSE(all[0]->state.holds());
  EXPECT_FALSE(all[1]->state.clean());
  all.erase(all.begin());
  all.push_back(newcomer(1));
  all[1]->unclean();
  expect_each(synchronize(all, false), ErrorCode::rendezvous, -1, HasSubstr("ranks 0, 1 have only a part of it"));
  std::ranges::fill(all[0]->weights, std::byte(7));  // it loads the checkpoint itself
  all[0]->bias[0] = std::byte(7);
  all[0]->step = 7;
  all[0]->state.restored();
  expect_in_order(synchronize(all, false));
  for (const auto& rank : all) rank->expect(7, 0);
}

}  // namespace
}  // namespace anello::elastic
