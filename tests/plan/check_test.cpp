// check() accepts every plan that the library makes, and names the error in wrong plans.
#include "ring/plan/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/plan/cases.hpp"

namespace anello::plan {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr Expectation kAllreduce = {Kind::allreduce};

class EveryPlan : public testing::TestWithParam<int> {};

TEST_P(EveryPlan, KeepsItsPromise) {
  const int world = GetParam();
  const auto n = std::uint64_t(world);
  for (const std::uint64_t count : std::set<std::uint64_t>{0, 1, n - 1, n, n + 1, 2 * n + 1, 37})
    for (const std::uint64_t slab : {0, 1, 5, 16}) {
      if (count == 37 && slab == 1) continue;  // shows no more than smaller counts, and takes half of the time
      for (const Case& each : all_cases(world, count, slab))
        EXPECT_EQ(check(each.plans, each.expectation), std::nullopt) << each.name;
    }
}
INSTANTIATE_TEST_SUITE_P(World, EveryPlan, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16));

TEST(Barrier, HearsFromEverybodyWhateverTheCount) {
  for (const Algorithm algorithm : all_algorithms())
    for (const int world : {1, 2, 3, 7, 16})
      EXPECT_EQ(check(plans_of(world,
                               [&](int rank) {
                                 return algorithms::plan_barrier({rank, world, 0}, algorithm);
                               }),
                      {Kind::barrier}),
                std::nullopt)
          << name(algorithm) << ", " << world;
}

TEST(Check, RankOrderIsKeptWhereItIsPromisedAndNotElsewhere) {
  constexpr int kWorld = 24;  // a grid of fewer ranks may be one line, which keeps rank order
  for (const Algorithm algorithm : all_algorithms()) {
    const auto plans = plans_of(kWorld, [&](int rank) {
      return algorithms::plan_allreduce(algorithm, {rank, kWorld, 49}, 25);
    });
    EXPECT_EQ(!check(plans, {Kind::allreduce, true}), reproducible(algorithm)) << name(algorithm);
  }
}

TEST(Check, AnotherRootIsAnotherPromise) {
  const auto plans = plans_of(3, [](int rank) { return algorithms::plan_broadcast({rank, 3, 4, 1}); });
  EXPECT_EQ(check(plans, {Kind::broadcast, false, 1}), std::nullopt);
  EXPECT_THAT(check(plans, {Kind::broadcast, false, 2}), Optional(HasSubstr("has other buffers than")));
}

TEST(Check, PlansOfOtherRanksOrWorldsAreRefused) {
  std::vector<Plan> plans = plans_of(2, [](int rank) { return algorithms::plan_allgather({rank, 2, 3}); });
  std::swap(plans[0], plans[1]);
  EXPECT_THAT(check(plans, {Kind::allgather}), Optional(HasSubstr("rank 0 of 2 has the plan of rank 1 of 2")));
  EXPECT_THAT(check({}, {}), Optional(HasSubstr("no plans")));
}

TEST(Check, RanksThatDisagreeAboutTheAlgorithmAreFound) {
  std::vector<Plan> plans = plans_of(4, [](int rank) {
    return algorithms::plan_allreduce(Algorithm::ring, {rank, 4, 8});
  });
  plans[2] = algorithms::plan_allreduce(Algorithm::star, {2, 4, 8});
  EXPECT_NE(check(plans, kAllreduce), std::nullopt);
}

TEST(Check, WaitingForEachOtherIsADeadlock) {
  const Case two = with_scratch_slots(2), one = with_scratch_slots(1);
  EXPECT_EQ(check(two.plans, two.expectation), std::nullopt);
  EXPECT_THAT(check(one.plans, one.expectation), Optional(HasSubstr("waits for ever")));
}

// Two ranks receive nothing before they have sent everything. This plan is right only if the link can hold all bytes.
TEST(Check, WhatALinkHoldsDecides) {
  std::vector<Plan> plans = plans_of(2, [](int rank) {
    return algorithms::plan_allreduce(Algorithm::one_shot, {rank, 2, 4});
  });
  for (Plan& plan : plans) plan.deps.at(0).whole = true;
  EXPECT_THAT(check(plans, kAllreduce, 1), Optional(HasSubstr("waits for ever")));
  EXPECT_THAT(check(plans, kAllreduce, 3), Optional(HasSubstr("waits for ever")));
  EXPECT_EQ(check(plans, kAllreduce, 4), std::nullopt);
}

TEST(Check, SaysWhichRankAndStepAndWhat) {
  std::vector<Plan> plans = plans_of(2, [](int rank) {
    return algorithms::plan_allreduce(Algorithm::one_shot, {rank, 2, 4});
  });
  plans[1].steps.at(1).deps = 0;
  EXPECT_THAT(check(plans, kAllreduce),
              Optional(HasSubstr("in place: rank 1 step 1 element 0: overwrites an element still to be read")));
}

TEST(Check, AWrongResultIsShown) {
  std::vector<Plan> plans = plans_of(2, [](int rank) {
    return algorithms::plan_allreduce(Algorithm::one_shot, {rank, 2, 1});
  });
  Step& step = plans[0].steps.at(1);
  step.act = Act::copy;
  step.sources = 0;
  step.makes_result = false;
  EXPECT_THAT(check(plans, kAllreduce), Optional(HasSubstr("rank 0 element 0: not each contribution once, but x1[0]")));
}

TEST(Check, BothRanksMustExpectTheSameReplies) {
  const auto exchange = [](int rank) {
    return algorithms::plan_allreduce(Algorithm::two_shot, {.rank = rank, .world = 2, .count = 4});
  };
  auto plans = plans_of(2, exchange);
  EXPECT_EQ(check(plans, kAllreduce), std::nullopt);
  plans[1].reply_elems++;
  EXPECT_THAT(check(plans, kAllreduce),
              Optional(HasSubstr("rank 1 waits for replies of 3 elements, but rank 0 waits for replies of 2")));
  plans = plans_of(2, exchange);
  for (Step& step : plans[1].steps)
    if (step.act == Act::copy) step.reply = false;
  EXPECT_THAT(check(plans, kAllreduce),
              Optional(HasSubstr("rank 0 does not send the replies that the other rank takes")));
}

// The last slab has one element, so only rank 0 has a part of it.
TEST(Check, RanksExpectTheSameRepliesThoughOneHasFewerParts) {
  const auto plans = plans_of(2, [](int rank) {
    return algorithms::plan_allreduce(Algorithm::two_shot, {.rank = rank, .world = 2, .count = 9}, 4);
  });
  EXPECT_EQ(plans[0].reply_elems, 2U);
  EXPECT_EQ(check(plans, kAllreduce), std::nullopt);
}

// The builder cannot find out that a result is in scratch memory, so the algorithm must declare it.
TEST(Check, AResultThatIsNotDividedIsShown) {
  const auto chain = [](bool says_so) {
    return plans_of(2, [&](int rank) {
      PlanBuilder builder({.rank = rank, .world = 2, .input_elems = 1, .output_elems = std::uint64_t(rank == 0)});
      const Range all{0, 1};
      if (rank == 0) {
        builder.send(1, all, Space::input);
        builder.copy(1, all);
      } else {
        const Operand sum = builder.scratch(1);
        builder.reduce(0, all, sum, builder.at(Space::input, all));
        if (says_so) builder.makes_result();
        builder.send(0, all, sum);
      }
      return std::move(builder).finish();
    });
  };
  EXPECT_EQ(check(chain(true), {Kind::reduce, true, 0}), std::nullopt);
  EXPECT_THAT(check(chain(false), {Kind::reduce, true, 0}),
              Optional(HasSubstr("is (x0[0] + x1[0]), not result of (x0[0] + x1[0])")));
}

}  // namespace
}  // namespace anello::plan
