// The dependencies that the builder derives from a program: which step waits for which, and up to which element.
#include "ring/plan/plan_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ring/algorithms/plans.hpp"

namespace anello::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PlanBuilder draft_of(std::uint64_t elems) {
  return PlanBuilder({.rank = 1, .world = 4, .input_elems = elems, .output_elems = elems});
}
std::vector<Dep> deps(const Plan& plan, std::size_t step) {
  const auto first = plan.deps.begin() + plan.steps.at(step).first_dep;
  return {first, first + plan.steps[step].deps};
}

TEST(PlanBuilder, StepsAreGroupedByStreamSendsFirst) {
  PlanBuilder builder = draft_of(8);
  builder.reduce(0, {0, 4}, Space::input);
  builder.send(2, {0, 4}, Space::output);
  builder.fold({4, 4}, std::array{Operand{Space::input, 4}});
  builder.send(3, {0, 4}, Space::output);
  builder.send(2, {4, 4}, Space::output);
  const Plan plan = std::move(builder).finish();

  std::vector<std::uint32_t> order;
  for (const Step& step : plan.steps) order.push_back(step.order);
  EXPECT_THAT(order, ElementsAre(1, 4, 3, 0, 2));
  ASSERT_EQ(plan.streams.size(), 4U);
  EXPECT_EQ(plan.streams[0].peer, 2);
  EXPECT_EQ(plan.streams[1].peer, 3);
  EXPECT_EQ(plan.streams[2].kind, Stream::Kind::receive);
  EXPECT_EQ(plan.streams[3].kind, Stream::Kind::local);
  EXPECT_EQ(plan.streams[3].peer, -1);
}

TEST(PlanBuilder, AReadFollowsTheWriteAsFarAsItHasCome) {
  PlanBuilder builder = draft_of(8);
  builder.copy(0, {0, 8});
  builder.send(2, {2, 4}, Space::output);
  EXPECT_THAT(deps(std::move(builder).finish(), 0), ElementsAre(Dep{1, false}));
}

TEST(PlanBuilder, AWriteFollowsTheReadersAndThroughThemTheWriter) {
  PlanBuilder builder = draft_of(8);
  builder.copy(0, {0, 8});                 // 2
  builder.send(2, {0, 8}, Space::output);  // 0
  builder.send(3, {0, 8}, Space::output);  // 1
  builder.copy(3, {0, 8});                 // 3
  EXPECT_THAT(deps(std::move(builder).finish(), 3), ElementsAre(Dep{0, false}, Dep{1, false}));
}

TEST(PlanBuilder, AWriteFollowsTheWriteThatNobodyRead) {
  PlanBuilder builder = draft_of(8);
  builder.copy(0, {0, 8});
  builder.copy(2, {4, 4});
  EXPECT_THAT(deps(std::move(builder).finish(), 1), ElementsAre(Dep{0, false}));
}

TEST(PlanBuilder, InputAndOutputAreTakenAsOneMemory) {
  PlanBuilder builder = draft_of(8);
  builder.send(2, {0, 8}, Space::input);
  builder.copy(0, {0, 8});
  EXPECT_THAT(deps(std::move(builder).finish(), 1), ElementsAre(Dep{0, false}));
}

TEST(PlanBuilder, BasesSayWhereTheyMeet) {
  PlanBuilder builder({.rank = 1, .world = 2, .input_elems = 4, .output_elems = 8, .input_base = 4});
  builder.send(0, {4, 4}, Space::input);  // 0
  builder.copy(0, {0, 4});                // it does not overlap
  builder.fold({4, 4}, std::array{Operand{Space::input, 0}});
  const Plan plan = std::move(builder).finish();
  EXPECT_EQ(plan.steps[0].place, (Operand{Space::input, 0}));
  EXPECT_THAT(deps(plan, 1), IsEmpty());
  EXPECT_THAT(deps(plan, 2), ElementsAre(Dep{0, false}));
}

TEST(PlanBuilder, ReadersDoNotWaitForEachOtherNorStreamsForThemselves) {
  PlanBuilder builder = draft_of(8);
  builder.send(2, {0, 8}, Space::input);
  builder.send(3, {0, 8}, Space::input);
  builder.copy(0, {0, 4});
  builder.copy(0, {0, 8});
  const Plan plan = std::move(builder).finish();
  EXPECT_THAT(deps(plan, 1), IsEmpty());
  // The last copy waits for the sends of the elements that the copy of [0, 4) did not overwrite.
  EXPECT_THAT(deps(plan, 3), ElementsAre(Dep{0, false}, Dep{1, false}));
}

TEST(PlanBuilder, OtherElementsInTheSamePlaceWaitForTheEnd) {
  PlanBuilder builder = draft_of(8);
  const Operand slot = builder.scratch(4);
  builder.copy(0, {0, 4}, slot);  // 1
  builder.send(2, {0, 4}, slot);  // 0
  builder.copy(3, {4, 4}, slot);  // 2
  const Plan plan = std::move(builder).finish();
  EXPECT_THAT(deps(plan, 0), ElementsAre(Dep{1, false}));
  EXPECT_THAT(deps(plan, 2), ElementsAre(Dep{0, true}));
}

TEST(PlanBuilder, AWholeDependencyReplacesAStreamingOne) {
  PlanBuilder builder = draft_of(8);
  const Operand slot = builder.scratch(4);
  builder.copy(0, {0, 4}, slot);
  const Operand sources[] = {slot, {Space::scratch, slot.at + 1}};
  builder.fold({0, 3}, sources);
  EXPECT_THAT(deps(std::move(builder).finish(), 1), ElementsAre(Dep{0, true}));
}

TEST(PlanBuilder, SlabsTakeTurnsInTheScratch) {
  PlanBuilder builder = draft_of(30);
  for (std::uint64_t slab = 0; slab < 3; slab++) {
    builder.slab(std::uint64_t(slab));
    const Operand slot = builder.scratch(10);
    builder.copy(0, {10 * slab, 10}, slot);
    builder.send(2, {10 * slab, 10}, slot);
  }
  const Plan plan = std::move(builder).finish();
  EXPECT_EQ(plan.scratch_elems, 32U);  // two halves, each of 10 elements rounded up to 16
  EXPECT_EQ(plan.steps[3].place.at, 0U);
  EXPECT_EQ(plan.steps[4].place.at, 16U);
  EXPECT_EQ(plan.steps[5].place.at, 0U);
  EXPECT_THAT(deps(plan, 4), IsEmpty());
  EXPECT_THAT(deps(plan, 5), ElementsAre(Dep{0, true}));
}

TEST(PlanBuilder, StepsOfNoElementsAreLeftOut) {
  PlanBuilder builder = draft_of(8);
  builder.send(2, {4, 0}, Space::input);
  builder.copy(0, {4, 0});
  const Plan plan = std::move(builder).finish();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_TRUE(plan.streams.empty());
}

TEST(PlanBuilder, TheLowerRankStandsOnTheLeft) {
  PlanBuilder builder = draft_of(8);
  builder.reduce(0, {0, 4}, Space::input);
  builder.reduce(2, {4, 4}, Space::input);
  const Plan plan = std::move(builder).finish();
  EXPECT_TRUE(plan.steps[0].incoming_left);
  EXPECT_FALSE(plan.steps[1].incoming_left);
}

// The size of a plan, and so the time to make it, grows with the number of ranks or its logarithm, but not with its
// square. The work that one rank does for other ranks grows in the same way.
TEST(Plans, StayInProportionToTheWorld) {
  constexpr int kWorld = 4096;
  constexpr std::uint64_t kCount = 1 << 20;
  for (const int rank : {0, 1, kWorld / 2, kWorld - 1})
    for (const Algorithm algorithm : all_algorithms()) {
      const Plan plan = algorithms::plan_allreduce(algorithm, {rank, kWorld, kCount});
      EXPECT_LE(plan.steps.size(), 4U * kWorld) << name(algorithm);
      EXPECT_LE(plan.deps.size(), 5U * kWorld) << name(algorithm);
      const bool folds = std::ranges::any_of(plan.steps, [](const Step& step) { return step.act == Act::fold; });
      EXPECT_EQ(plan.scratch_elems != 0, folds) << name(algorithm) << ": only a fold needs scratch";
    }
}

TEST(Plans, CountsAreSixtyFourBitsWide) {
  constexpr std::uint64_t kCount = std::uint64_t(1) << 40;
  const Plan ring = algorithms::plan_allreduce(Algorithm::ring, {2, 3, kCount});
  EXPECT_EQ(ring.steps[0].range.end(), kCount);
  EXPECT_EQ(ring.steps[0].range.count, kCount / 3);
  const Plan gather = algorithms::plan_allgather({2, 3, kCount});
  EXPECT_EQ(gather.steps[0].range.begin, 2 * kCount);
}

std::vector<std::uint32_t> replies(const Plan& plan) {
  std::vector<std::uint32_t> orders;
  for (const Step& step : plan.steps)
    if (step.reply) orders.push_back(step.order);
  std::ranges::sort(orders);
  return orders;
}

// Each slab has four steps: a send of the other rank's half, a reduction, a send of the result, and a copy of the other
// rank's result.
TEST(PlanBuilder, TwoRanksThatExchangeHalvesReply) {
  using algorithms::plan_allreduce;
  for (const int rank : {0, 1}) {
    const Plan plan = plan_allreduce(Algorithm::two_shot, {.rank = rank, .world = 2, .count = 15}, 6);
    EXPECT_EQ(plan.reply_elems, 3) << "a half waits for its reply, and the halves of the last slab are 2 and 1";
    EXPECT_THAT(replies(plan), ElementsAre(1, 2, 3, 5, 6, 7, 9, 10, 11));
  }
  EXPECT_EQ(plan_allreduce(Algorithm::two_shot, {.rank = 0, .world = 2, .count = 7}, 6).reply_elems, 3)
      << "the last slab is of one element, which rank 1 does not reduce";
  EXPECT_EQ(plan_allreduce(Algorithm::one_shot, {.rank = 0, .world = 2, .count = 15}).reply_elems, 0);
  EXPECT_EQ(plan_allreduce(Algorithm::two_shot, {.rank = 0, .world = 2, .count = 1}).reply_elems, 0);
  EXPECT_EQ(plan_allreduce(Algorithm::two_shot, {.rank = 0, .world = 3, .count = 15}).reply_elems, 0);
}

// In one slab, the next contribution arrives before the reply to the first one has been taken.
TEST(PlanBuilder, ContributionsThatWaitForRepliesAddUp) {
  PlanBuilder builder({.rank = 0, .world = 2, .input_elems = 16, .output_elems = 16});
  for (const std::uint64_t at : {0, 8}) {
    builder.send(1, {at + 4, 4}, Space::input);
    builder.reduce(1, {at, 4}, Space::input);
  }
  for (const std::uint64_t at : {0, 8}) {
    builder.send(1, {at, 4}, Space::output);
    builder.copy(1, {at + 4, 4});
  }
  EXPECT_EQ(std::move(builder).finish().reply_elems, 8);
}

}  // namespace
}  // namespace anello::plan
