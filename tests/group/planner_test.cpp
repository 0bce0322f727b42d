#include "ring/group/planner.hpp"

#include <gtest/gtest.h>

#include <array>

namespace anello::group {
namespace {

// Operations with ever new sizes, each begun before the previous one is done.
TEST(Planner, ForgetsPlansThoughTheQueueIsNeverEmpty) {
  Settings settings;
  settings.slab_bytes = 1;  // many steps
  constexpr std::uint64_t kMax = 100'000;
  Planner planner(0, 0, {.world = 8}, {}, settings, {}, kMax);
  const plan::Plan* before = nullptr;
  std::uint64_t largest = 0, made = 0, last = 0;
  for (std::uint64_t number = 0; made < 4 * kMax; number++) {
    planner.tidy(number > 0 ? number - 1 : 0, number);
    last = planner.bytes();
    const Call operation{.kind = Kind::allreduce, .dtype = DType::u8, .count = (2 << 20) + number};
    const Planner::Planned& planned = planner.plan(operation);
    made += planner.bytes() - last;
    largest = std::max(largest, planner.bytes());
    ASSERT_EQ(planned.plan->input_elems, operation.count);
    ASSERT_TRUE(!before || before->input_elems == operation.count - 1) << "a plan that is used was freed";
    before = planned.plan;
  }
  EXPECT_LT(largest, 2 * kMax);
}

TEST(Planner, FindsAPlanAgain) {
  Planner planner(0, 0, {.world = 3}, {}, {});
  const auto plan = [&](std::uint64_t count) {
    return planner.plan({.kind = Kind::allreduce, .dtype = DType::f32, .count = count}).plan;
  };
  const plan::Plan* const first = plan(100);
  EXPECT_NE(plan(200), first);
  EXPECT_EQ(plan(100), first);
}

TEST(Planner, ChoosesByTheLargestOfUnequalParts) {
  const std::vector<int> hosts{0, 0, 1, 1, 2, 2};
  Planner planner(0, 0, {.world = 6, .hosts = 3}, {}, {}, hosts);
  const auto chosen = [&](const std::vector<std::uint64_t>& counts) {
    const Call operation{.kind = Kind::allgather, .dtype = DType::u8, .count = 120'000, .counts = counts};
    return name(planner.plan(operation).signature.algorithm);
  };
  EXPECT_EQ(chosen(std::vector<std::uint64_t>(6, 20'000)), "shares+two_shot");
  EXPECT_EQ(chosen({0, 0, 0, 120'000, 0, 0}), "shares+ring");
}

// Ranks may use each other's large tensors directly only if few ranks share memory. If the user requests another
// algorithm, all ranks must use that algorithm.
TEST(Planner, LetsLargeTensorsOfRanksThatShareMemoryBeUsedWhereTheyLie) {
  const algorithms::Facts memory{.world = 4, .memory = true};
  const Call large{.kind = Kind::allreduce, .dtype = DType::f32, .count = 2048};
  const auto may = [](const algorithms::Facts& facts, Call operation, const Settings& settings = {}) {
    return Planner(0, 0, facts, {}, settings).plan(operation).may_be_direct;
  };
  EXPECT_TRUE(may(memory, large));
  EXPECT_FALSE(may({.world = 4}, large)) << "no shared memory";
  EXPECT_FALSE(may({.world = 16, .memory = true}, large)) << "a link between any two";
  Call other = large;
  for (const Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce}) {
    other = large;
    other.kind = kind;
    EXPECT_TRUE(may({.world = 2, .memory = true}, other));
    EXPECT_EQ(may(memory, other), kind == Kind::allreduce) << "the root waits for nothing, or nothing waits for it";
    other.count = kind == Kind::allreduce ? 511 : 16'383;
    EXPECT_FALSE(may(memory, other)) << "small";
    other.count++;
    EXPECT_TRUE(may(memory, other));
  }
  constexpr std::array<std::uint64_t, 4> kUneven{0, 2000, 48, 0};
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter}) {
    other = large;
    other.kind = kind;
    other.counts = kUneven;
    EXPECT_TRUE(may(memory, other)) << "as large together";
    other.counts = {};
    other.count = 128;
    EXPECT_TRUE(may(memory, other)) << "parts that are as large together";
    other.count--;
    EXPECT_FALSE(may(memory, other)) << "small";
  }
  other = large;
  other.kind = Kind::gather;
  EXPECT_FALSE(may(memory, other));
  other = large;
  other.algorithm = "ring";
  EXPECT_TRUE(may(memory, other)) << "another rank may choose what this one forces";
  EXPECT_FALSE(Planner(0, 0, memory, {}, Settings()).plan(other).shows_tensors) << "forced by the call";
  EXPECT_TRUE(Planner(0, 0, memory, {}, Settings()).plan(large).shows_tensors);
  other = large;
  other.wire = DType::bf16;
  EXPECT_FALSE(may(memory, other)) << "results are rounded";
  Settings settings;
  settings.algorithm = "ring";
  EXPECT_FALSE(may(memory, large, settings)) << "forced by ANELLO_ALGORITHM";
}

}  // namespace
}  // namespace anello::group
