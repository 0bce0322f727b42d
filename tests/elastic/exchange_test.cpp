// Synchronizations in which the program sends the state itself.
#include <gmock/gmock.h>

#include <array>

#include "ring/elastic/contents.hpp"
#include "tests/elastic/ranks.hpp"

namespace anello::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A rank of a program that keeps one number.
struct Owner {
  Owner(double value, std::optional<std::uint64_t> held) : number(value) {
    if (held) StateAccess::contents(state).settle(*held);
  }
  std::string manifest = "number (f64)";
  double number;
  State state;
  Decision decision;
  bool sends = true;  // whether it takes part in the transfer
};
using Owners = std::array<Owner, 3>;

Hash hash_of_number(double number) {
  return Hash::of(std::as_bytes(std::span(&number, 1)));
}

void exchange(World& world, Owner& its) {
  its.decision = begin_synchronization(world, its.state, its.manifest, true);
  if (!its.sends) throw Error(ErrorCode::device, "no memory");
  world.broadcast(std::span(&its.number, 1), its.decision.sources.front());
  end_synchronization(world, its.state, its.decision, {{"number", hash_of_number(its.number)}});
}

std::vector<Told> exchange_all(Owners& all) {
  return told_on_all_ranks(3, [&](World& world) { exchange(world, all[std::size_t(world.rank())]); });
}

TEST(Exchange, ReceiversHoldTheStateAtItsEnd) {
  Owners all{Owner{1, {}}, Owner{7, 4}, Owner{6, 3}};
  for (const Told& told : exchange_all(all)) EXPECT_FALSE(told.error) << told.error->what();
  for (const Owner& each : all) {
    EXPECT_THAT(each.decision.sources, ElementsAre(1));
    EXPECT_THAT(each.decision.receivers, ElementsAre(0, 2));
    EXPECT_EQ(each.number, 7);
    EXPECT_EQ(each.state.revision(), 4u);
    EXPECT_TRUE(each.state.holds() && each.state.clean());
  }
}

// The first source ends in the middle of the synchronization, so the second source must be the source in the next
// world.
TEST(Exchange, AReceiverThatFailsInBetweenIsNoSource) {
  Owners all{Owner{7, 4}, Owner{1, {}}, Owner{7, 4}};
  all[0].sends = false;
  exchange_all(all);
  EXPECT_TRUE(all[0].state.clean());
  EXPECT_FALSE(all[1].state.clean() || all[1].state.holds());
  EXPECT_TRUE(all[2].state.clean());
  all[0].sends = true;
  for (const Told& told : exchange_all(all)) EXPECT_FALSE(told.error) << told.error->what();
  EXPECT_THAT(all[1].decision.sources, ElementsAre(0, 2));
  EXPECT_EQ(all[1].number, 7);
}

TEST(Exchange, AComparisonAfterACommitFindsWhatDiffers) {
  Owners all{Owner{7, 4}, Owner{7, 4}, Owner{7, 4}};
  const auto compared = [&](const char* last_name) {
    return told_on_all_ranks(3, [&](World& world) {
      const Owner& its = all[std::size_t(world.rank())];
      compare(world, its.state, {{world.rank() == 2 ? last_name : "number", hash_of_number(its.number)}});
    });
  };
  for (const Told& told : compared("number")) EXPECT_FALSE(told.error) << told.error->what();
  for (const Told& told : compared("count")) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_THAT(told.error->message(), HasSubstr("'number' on rank 0, 'count' on rank 2"));
  }
  all[1].number = 6;
  for (const Told& told : compared("number")) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::diverged);
    EXPECT_EQ(told.error->rank(), 1);
  }
}

// Rank 2 has no tensors. If that were not an error, rank 2 would take no part in the transfer, and the other ranks
// would wait for it.
TEST(Exchange, SizesThatDifferAreAMismatch) {
  const auto told = told_on_all_ranks(3, [](World& world) {
    std::vector<std::byte> some(world.rank() == 2 ? 0 : 1000);
    const std::vector<Bytes> memory(world.rank() == 2 ? 0 : 2, some);
    const auto groups = deliver(world, {.revision = 4, .sources = {0, 1}, .receivers = {2}}, memory);
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::mismatch);
    EXPECT_THAT(each.error->message(), HasSubstr("tensor 0 to deliver differs: 1000 bytes on rank 0, none on rank 2"));
  }
}

TEST(Exchange, AManifestThatDiffersIsAMismatch) {
  Owners all{Owner{7, 4}, Owner{7, 4}, Owner{1, {}}};
  all[0].manifest = all[1].manifest = "step\nnumber (f64)";
  all[2].manifest = "step\nnumber (f32)";
  for (const Told& told : exchange_all(all)) {
    ASSERT_TRUE(told.error && told.error->code() == ErrorCode::mismatch);
    EXPECT_EQ(told.error->rank(), 2);
    EXPECT_THAT(told.error->message(), HasSubstr("entry 1 of the state differs: number (f64) on rank 0, number (f32)"));
  }
  EXPECT_TRUE(all[2].state.clean()) << "nothing has arrived";
}

// A program that sends its state itself cannot synchronize with one that leaves this to the library.
TEST(Exchange, DoesNotFitAStateWithEntries) {
  Owner owner{7, 4};
  Rank rank(1);
  for (const Told& told : told_on_all_ranks(2, [&](World& world) {
         world.rank() == 0 ? exchange(world, owner) : void(synchronize(world, rank.state, true));
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_THAT(told.error->message(), HasSubstr("verification of the state differs: by the program on rank 0, on on"));
  }
}

TEST(Exchange, ADifferentHashIsDiverged) {
  Owners all{Owner{7, 4}, Owner{1, {}}, Owner{7, 4}};
  const auto forget = [&](World& world) {  // rank 1 does not receive the number
    Owner& its = all[std::size_t(world.rank())];
    its.decision = begin_synchronization(world, its.state, its.manifest, true);
    end_synchronization(world, its.state, its.decision, {{"number", hash_of_number(its.number)}});
  };
  for (const Told& told : told_on_all_ranks(3, forget)) {
    ASSERT_TRUE(told.error && told.error->code() == ErrorCode::diverged);
    EXPECT_THAT(told.error->message(), HasSubstr("entry 'number' of the state differs at revision 4: rank 1 has hash"));
  }
  EXPECT_FALSE(all[1].state.clean());
}

TEST(Exchange, OtherEntriesAtItsEndAreAMismatch) {
  Owners all{Owner{7, 4}, Owner{7, 4}, Owner{7, 4}};
  const auto end = [&](World& world) {
    Owner& its = all[std::size_t(world.rank())];
    its.decision = begin_synchronization(world, its.state, its.manifest, true);
    std::vector<EntryHash> entries{{"number", hash_of_number(7)}};
    if (world.rank() == 2) entries.push_back({"momentum", {}});
    end_synchronization(world, its.state, its.decision, entries);
  };
  for (const Told& told : told_on_all_ranks(3, end)) {
    ASSERT_TRUE(told.error && told.error->code() == ErrorCode::mismatch);
    EXPECT_THAT(told.error->message(), HasSubstr("entry 1 of the state differs: none on rank 0, 'momentum' on rank 2"));
  }
}

TEST(Exchange, ACommitThatAReceptionHasInterruptedCannotEnd) {
  State state;
  Contents& contents = StateAccess::contents(state);
  contents.settle(3);
  contents.begin_commit();
  contents.receive();
  EXPECT_THROW(contents.end_commit(), Error);
  EXPECT_FALSE(state.clean());
}

}  // namespace
}  // namespace anello::elastic
