// Allreduce of tensors in memory from anello::allocate, which ranks that share memory reduce where they lie; over TCP
// they are tensors like others.
#include <gtest/gtest.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <array>
#include <atomic>
#include <thread>

#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using SharedFloats = std::vector<float, Allocator<float>>;

// Of sizes around that from which they are, and with parts of chunks.
TEST(SharedTensors, AreReducedByEveryReductionOfEveryType) {
  constexpr std::array<std::uint64_t, 3> kElems{1023, 8192, 9001};
  for (const int ranks : {2, 3})
    run_world(ranks, [&](World& world) {
      std::size_t n = 0;
      for (int dtype = int(DType::f16); dtype <= int(DType::boolean); dtype++)
        for (int op = int(Op::sum); op <= int(Op::bit_xor); op++, n++) {
          if (!can_reduce(DType(dtype), Op(op))) continue;
          const Exercise exercise{.op = Op(op),
                                  .dtype = DType(dtype),
                                  .count = kElems[n % kElems.size()],
                                  .in_place = n % 2 == 1,
                                  .shareable = true};
          EXPECT_EQ(carry_out(world, exercise), "");
        }
    });
}

TEST(SharedTensors, AreScaledAsOthersAre) {
  run_world(3, [](World& world) {
    for (const DType dtype : {DType::f16, DType::f32, DType::f64})
      for (const Op op : {Op::sum, Op::average})
        for (const bool in_place : {false, true})
          EXPECT_EQ(carry_out(world, {.op = op,
                                      .dtype = dtype,
                                      .count = 6000,
                                      .in_place = in_place,
                                      .shareable = true,
                                      .prescale = 2,
                                      .postscale = 0.5}),
                    "");
  });
}

// Some ranks' tensors, others in each call.
TEST(SharedTensors, MeetThoseThatAreNotShared) {
  run_world(4, [](World& world) {
    for (unsigned shared = 0; shared < 16; shared++)
      EXPECT_EQ(carry_out(world, {.count = 3000 + shared,
                                  .in_place = shared % 2 == 0,
                                  .shareable = (shared >> world.rank() & 1) != 0}),
                "");
  });
}

TEST(SharedTensors, AreReducedInSeveralGroupsAtATime) {
  run_world(3, [](World& world) {
    std::vector<Group> groups;
    for (int k = 0; k < 4; k++) groups.push_back(world.group({0, 1, 2}));
    for (int round = 0; round < 10; round++) {
      std::vector<SharedFloats> tensors;
      std::vector<Work> works;
      for (std::size_t k = 0; k < groups.size(); k++) tensors.emplace_back(10'000 * (k + 1), float(world.rank() + 1));
      for (std::size_t k = 0; k < groups.size(); k++) works.push_back(groups[k].allreduce_async(tensors[k]));
      for (Work& work : works) work.wait();
      for (const SharedFloats& tensor : tensors)
        EXPECT_TRUE(std::ranges::all_of(tensor, [](float value) { return value == 6; }));
    }
  });
}

// One rank aborts at some moment, and all are told; the others' tensors are their own again.
TEST(SharedTensors, AreGivenUpWhenARankAborts) {
  for (int moment = 0; moment < 12; moment++) {
    std::atomic<int> told = 0;
    run_world(3, [&](World& world) {
      SharedFloats values(500'000);
      world.allreduce(values);
      try {
        for (int k = 0;; k++) {
          Work work = world.allreduce_async(values, Op::max);
          if (world.rank() == moment % 3 && k == moment) {
            std::this_thread::sleep_for(std::chrono::microseconds(50 * moment));
            world.abort("enough");
          }
          work.wait();
        }
      } catch (const Error& e) {
        told += e.code() == ErrorCode::aborted;
        values = SharedFloats(values.size(), 1.F);
      }
    });
    EXPECT_EQ(told, 3);
  }
}

// One rank forces what the other chooses through shared memory, two_shot: their signatures are equal, and no rank waits
// for the other to show its tensor. Over TCP the choice is another one.
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
