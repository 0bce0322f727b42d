// Collectives on tensors in memory from anello::allocate, which ranks that share memory use directly; over TCP they are
// ordinary tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <array>
#include <atomic>
#include <numeric>

#include "ring/base/element_types.hpp"
#include "tests/group/in_groups.hpp"
#include "tests/support/random.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using SharedFloats = std::vector<float, Allocator<float>>;

constexpr std::array kThatReduce{Kind::allreduce, Kind::reduce, Kind::reduce_scatter};
constexpr std::array kThatCopy{Kind::broadcast, Kind::allgather};

// The test uses sizes near the smallest size at which tensors are shared, also with incomplete chunks. The collectives
// follow each other.
TEST(SharedTensors, AreReducedByEveryReductionOfEveryType) {
  constexpr std::array<std::uint64_t, 4> kElems{511, 8192, 9001, 4099};
  for (const int ranks : {2, 3})
    run_world(ranks, [&](World& world) {
      std::size_t n = 0;
      for (const DType dtype : kElementTypes)
        for (int op = int(Op::sum); op <= int(Op::bit_xor); op++) {
          if (!can_reduce(dtype, Op(op))) continue;
          const Kind kind = kThatReduce[n++ % kThatReduce.size()];
          const Exercise exercise{.kind = kind,
                                  .op = Op(op),
                                  .dtype = dtype,
                                  .count = kElems[n % kElems.size()],
                                  .root = int(n) % ranks,
                                  .in_place = n % 2 == 1,
                                  .shareable = true,
                                  .uneven = facts_of(kind).parts && n % 5 == 0};
          EXPECT_EQ(carry_out(world, exercise), "");
        }
    });
}

TEST(SharedTensors, AreBroadcastAndGathered) {
  for (const int ranks : {2, 5})
    run_world(ranks, [&](World& world) {
      for (const Kind kind : kThatCopy)
        for (int root = 0; root < (kind == Kind::broadcast ? ranks : 2); root++)
          for (const std::uint64_t count : {251, 8192, kind == Kind::broadcast ? 70'011 : 9'003})
            EXPECT_EQ(carry_out(world, {.kind = kind,
                                        .dtype = count % 2 == 0 ? DType::bf16 : DType::f64,
                                        .count = count,
                                        .root = root,
                                        .in_place = (count + std::uint64_t(root)) % 2 == 0,
                                        .shareable = true,
                                        .uneven = facts_of(kind).parts && root == 1}),
                      "");
    });
}

TEST(SharedTensors, AreScaledAsOthersAre) {
  run_world(3, [](World& world) {
    for (const Kind kind : kThatReduce)
      for (const DType dtype : {DType::f16, DType::f32, DType::f64})
        for (const Op op : {Op::sum, Op::average})
          for (const bool in_place : {false, true})
            EXPECT_EQ(carry_out(world, {.kind = kind,
                                        .op = op,
                                        .dtype = dtype,
                                        .count = kind == Kind::reduce ? 40'000U : 6'000U,
                                        .root = 1,
                                        .in_place = in_place,
                                        .shareable = true,
                                        .prescale = in_place ? 2. : 1.,
                                        .postscale = in_place ? 0.5 : 2.}),
                      "");
  });
}

// In each call, only some of the ranks have tensors in shared memory.
TEST(SharedTensors, MeetThoseThatAreNotShared) {
  run_world(4, [](World& world) {
    for (const Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce, Kind::allgather, Kind::reduce_scatter})
      for (unsigned shared = 0; shared < 16; shared += kind == Kind::allreduce ? 1 : 3)
        EXPECT_EQ(carry_out(world, {.kind = kind,
                                    .count = 17'000 + shared,
                                    .root = int(shared) % 4,
                                    .in_place = shared % 2 == 0,
                                    .shareable = (shared >> world.rank() & 1) != 0}),
                  "");
  });
}

TEST(SharedTensors, AreReducedInSeveralGroupsAtATime) {
  reduce_in_several_groups<SharedFloats>(10'000);
}

TEST(SharedTensors, AreGivenUpWhenARankAborts) {
  abort_at_every_moment<SharedFloats>();
}

// One rank forces two_shot, which the other rank chooses through shared memory anyway. So their signatures are equal,
// and neither rank waits for the other to share its tensor. Over TCP, the other rank chooses another algorithm.
TEST(SharedTensors, TakeThePlanIfOneRankForcesIt) {
  run_world(2, [](World& world) {
    SharedFloats values(50'000, 1.F);
    ReduceOptions options;
    if (world.rank() == 0) options.algorithm = "two_shot";
    try {
      world.allreduce(values, Op::sum, options);
      EXPECT_EQ(values.front(), 2);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::mismatch);
    }
  });
}

// Shows that the ranks use the tensors directly: with a plan, the checked ranks would send other data, and
// reduce_scatter would add in another order.
TEST(SharedTensors, AreUsedWhereTheyLie) {
  Settings settings = Settings::from_environment();
  settings.transport = "shm";
  const auto body = [](World& world) {
    const auto expect_sent = [&](const Exercise& exercise, int rank, std::uint64_t bytes) {
      const std::uint64_t before = world.counters().sent_bytes;
      EXPECT_EQ(carry_out(world, exercise), "");
      EXPECT_TRUE(world.rank() != rank || world.counters().sent_bytes - before == bytes) << int(exercise.kind);
    };
    constexpr std::uint64_t kCount = 16'384, kChunk = kCount / 4 * sizeof(float);
    expect_sent({.kind = Kind::broadcast, .count = kCount, .root = 0, .shareable = true}, 3, 2 * kChunk);
    expect_sent({.kind = Kind::reduce, .count = kCount, .root = 0, .shareable = true}, 0, 3 * kChunk);
    expect_sent({.kind = Kind::allgather, .count = kCount, .shareable = true, .uneven = true}, 2, 0);
    constexpr std::array kTerms{1e30F, 1.F, -1e30F, 2.F};
    SharedFloats input(kCount, kTerms[std::size_t(world.rank())]);
    std::vector<float> output(kCount / 4);
    world.reduce_scatter(input, output);
    EXPECT_TRUE(std::ranges::all_of(output, [](float value) { return value == 2; }));
  };
  run_world(4, body, settings);
}

// The lists have more tensors than two ranks keep mapped of each other, among them tensors that were sent before.
TEST(SharedTensors, MayBeMany) {
  run_world(3, [](World& world) {
    constexpr std::size_t kTensors = 80, kRounds = 12, kInList = 24;
    std::vector<SharedFloats> tensors;
    for (std::size_t k = 0; k < kTensors; k++) tensors.emplace_back(9'000);
    Random random(1);
    for (std::size_t round = 0; round < kRounds; round++) {
      std::vector<std::size_t> order(kTensors);
      std::iota(order.begin(), order.end(), 0);
      std::vector<Tensor> list;
      for (std::size_t k = 0; k < kInList; k++) {
        std::swap(order[k], order[random.from(k, kTensors - 1)]);
        std::ranges::fill(tensors[order[k]], float(k) * float(world.rank() == 0));
        list.emplace_back(std::span(tensors[order[k]]));
      }
      if (round % 2 == 0)
        world.broadcast(list, 0);
      else
        world.allreduce(list);
      for (std::size_t k = 0; k < kInList; k++)
        ASSERT_TRUE(std::ranges::all_of(tensors[order[k]], [&](float value) { return value == float(k); }));
    }
  });
}

// The receiving rank lacks a descriptor to map the root's memory. The test runs once with a receiving tensor that is
// not shared, so that the ranks use the plan, and once with tensors that are used directly.
TEST(SharedTensors, ThatARankCannotMapAreItsOwnFault) {
  Settings settings = Settings::from_environment();
  settings.transport = "shm";
  for (const bool both : {false, true}) {
    const auto program = [&](World& world) {
      std::optional<FewDescriptors> none;
      std::vector<float> own(100'000);
      SharedFloats shared(own.size());
      world.broadcast(own, 0);  // opens the link
      world.barrier();
      if (world.rank() == 1) none.emplace(0);
      world.barrier();
      world.broadcast(world.rank() == 0 || both ? Tensor(std::span(shared)) : Tensor(std::span(own)), 0);
    };
    for (const Told& told : told_on_all_ranks(2, program, settings)) {
      ASSERT_TRUE(told.error);
      EXPECT_TRUE(both || told.error->rank() == 1) << told.error->what();
      EXPECT_EQ(told.error->code(), ErrorCode::aborted) << told.error->what();
    }
  }
}

TEST(SharedTensors, OfDifferentSizesAreAMismatch) {
  std::atomic<int> told = 0;
  run_world(2, [&](World& world) {
    SharedFloats values(world.rank() == 0 ? 10'000 : 10'001);
    try {
      world.allreduce(values);
    } catch (const Error& e) {
      told += e.code() == ErrorCode::mismatch;
    }
  });
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace anello::group
