// The staged backend on a fake GPU, whose streams race unless something orders them.
#include "gpu/staged.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <atomic>
#include <memory>
#include <thread>

#include "tests/gpu/on_fake_gpu.hpp"
#include "tests/gpu/verbs.hpp"

namespace anello::gpu {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::size_t kSegmentBytes = 64;

std::unique_ptr<Verbs<Staged>> staged(World& world, Staged::Limits limits = {kSegmentBytes, milliseconds(0)}) {
  return std::make_unique<Verbs<Staged>>(world, fake::device(world.rank() % 2), limits);
}

class StagedInWorldsOf : public ::testing::TestWithParam<int> {
 protected:
  void expect_all_right(const std::vector<Exercise>& exercises) {
    run_world(GetParam(), [&](World& world) {
      const auto on_gpu = staged(world);
      expect_right(*on_gpu, world, fake::device(world.rank() % 2), exercises);
    });
    EXPECT_EQ(fake::alive(), 0);
  }
};

TEST_P(StagedInWorldsOf, SizesAroundSegmentsAndSlots) {
  std::vector<Exercise> all;
  for (const std::uint64_t count : {0, 1, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 500})
    for (const Exercise& exercise : exercises_of_all_kinds(count, GetParam() - 1)) all.push_back(exercise);
  expect_all_right(all);
}

TEST_P(StagedInWorldsOf, AllTypesAndReductions) {
  expect_all_right(exercises_of_all_reductions());
}

TEST_P(StagedInWorldsOf, WireTypesAndFactors) {
  expect_all_right({{.count = 100, .wire = DType::f16}, {.count = 100, .prescale = 2, .postscale = 0.5}});
}
INSTANTIATE_TEST_SUITE_P(Ranks, StagedInWorldsOf, ::testing::Values(1, 2, 4));

TEST(Staged, ListsAndTransfers) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world);
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> one(5, 1), two(100, 2), sent(70, world.rank() + 7), received(70);
    on_gpu->allreduce(std::vector<Tensor>{one, two}, stream.get(), Op::sum, {});
    if (world.rank() == 0)
      on_gpu->send(sent, 1, stream.get(), {});
    else
      on_gpu->recv(received, 0, stream.get(), {});
    fake::finish(stream.get());
    EXPECT_EQ(one, std::vector<int>(5, 2));
    EXPECT_EQ(two, std::vector<int>(100, 4));
    EXPECT_EQ(received, std::vector<int>(70, world.rank() == 1 ? 7 : 0));
  });
}

// The first segment of the longer tensor is as long as the only segment of the shorter tensor.
TEST(Staged, CountsThatDifferByWholeSegmentsAreAMismatch) {
  const std::vector<Told> told = told_on_all_ranks(2, [&](World& world) {
    const auto on_gpu = staged(world);
    std::vector<int> values(world.rank() == 0 ? 16 : 32, 1);
    on_gpu->allreduce(values, values, nullptr, Op::sum, {});
    on_gpu->allreduce(values, values, nullptr, Op::sum, {});
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::mismatch) << each.error->what();
  }
}

// A bucket has many small gradients. With a collective for each of them, these calls would take most of the bucket's
// time.
TEST(Staged, AListIsPackedIntoSegments) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world, {4096, milliseconds(0)});
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<std::vector<int>> values, received;
    for (int i = 0; i < 100; i++) values.emplace_back(std::size_t(i % 7), i);
    received.assign(values.begin(), values.end());
    const std::uint64_t before = world.counters().operations;
    on_gpu->allreduce(std::vector<Tensor>(values.begin(), values.end()), stream.get(), Op::sum, {});
    EXPECT_EQ(world.counters().operations - before, 1u);
    if (world.rank() == 1)
      for (auto& each : received) each.assign(each.size(), 0);
    on_gpu->broadcast(std::vector<Tensor>(received.begin(), received.end()), 0, stream.get(), {});
    EXPECT_EQ(world.counters().operations - before, 2u);
    fake::finish(stream.get());
    for (int i = 0; i < 100; i++) {
      EXPECT_EQ(values[std::size_t(i)], std::vector<int>(std::size_t(i % 7), 2 * i));
      EXPECT_EQ(received[std::size_t(i)], std::vector<int>(std::size_t(i % 7), i));
    }
  });
}

TEST(Staged, ListsThatAreCutInOtherPlacesAreAMismatch) {
  for (const Told& each : told_on_all_ranks(2, [&](World& world) {
         const auto on_gpu = staged(world);
         std::vector<int> one(world.rank() == 0 ? 3 : 5, 1), two(world.rank() == 0 ? 5 : 3, 1);
         on_gpu->allreduce(std::vector<Tensor>{one, two}, nullptr, Op::sum, {});
       })) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::mismatch) << each.error->what();
  }
}

// No memory grows with the tensors, and a segment needs one collective.
TEST(Staged, CallsWithPartsGoInSegmentsToo) {
  run_world(2, [](World& world) {
    const auto on_gpu = staged(world);
    const Stream stream = make_stream(fake::device(world.rank()));
    const int other = 1 - world.rank();
    std::vector<int> part(80, world.rank()), all(160), back(80), swapped(160), received(80), uneven(100);
    const auto operations_of = [&](const std::function<void()>& call) {
      const std::uint64_t before = world.counters().operations;
      call();
      return world.counters().operations - before;
    };
    world.barrier();
    const int made = fake::alive();
    world.barrier();
    EXPECT_EQ(operations_of([&] { on_gpu->allgather(part, all, stream.get(), {}); }), 10u) << "8 of 80 at a time";
    EXPECT_EQ(operations_of([&] { on_gpu->gather(part, all, 1, stream.get(), {}); }), 10u);
    EXPECT_EQ(operations_of([&] { on_gpu->scatter(all, back, 0, stream.get(), {}); }), 10u);
    EXPECT_EQ(operations_of([&] { on_gpu->reduce_scatter(all, back, stream.get(), Op::max, {}); }), 10u);
    EXPECT_EQ(operations_of([&] { on_gpu->alltoall(all, swapped, stream.get(), {}); }), 20u);
    EXPECT_EQ(operations_of([&] { on_gpu->exchange(part, other, received, other, stream.get(), {}); }), 20u);
    const std::vector<std::uint64_t> counts = {15, 85};
    part.resize(counts[std::size_t(world.rank())], world.rank());
    EXPECT_EQ(operations_of([&] { on_gpu->allgather(part, uneven, stream.get(), {.counts = counts}); }), 11u);
    fake::finish(stream.get());
    world.barrier();
    EXPECT_EQ(fake::alive(), made);
    EXPECT_EQ(received, std::vector<int>(80, other));
    EXPECT_EQ(uneven.front(), 0);
    EXPECT_EQ(uneven.back(), 1);
    world.barrier();
  });
}

TEST(Staged, TransfersThatDifferByWholeSegmentsAreAMismatch) {
  for (const Told& each : told_on_all_ranks(2, [](World& world) {
         const auto on_gpu = staged(world);
         std::vector<int> values(world.rank() == 0 ? 16 : 32, 1);
         if (world.rank() == 0) on_gpu->send(values, 1, nullptr, {});
         if (world.rank() == 1) on_gpu->recv(values, 0, nullptr, {});
         for (;;) on_gpu->allreduce(values, values, nullptr, Op::sum, {});
       })) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::mismatch) << each.error->what();
  }
}

// The receive has begun when the send is refused, and writes to the pinned memory until it is done.
TEST(Staged, AnExchangeWhoseSendIsRefusedWaitsForItsReceive) {
  std::atomic<bool> sends = false;
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world);
    std::vector<int> values(5, 1), received(5);
    if (world.rank() == 0) {
      EXPECT_THROW(on_gpu->exchange(values, 7, received, 1, nullptr, {}), Error);
      EXPECT_TRUE(sends) << "the call came back before the receive could be done";
    } else {
      std::this_thread::sleep_for(milliseconds(50));
      sends = true;
      on_gpu->send(values, 0, nullptr, {});
    }
    fake::wait_for_all();
  });
  EXPECT_EQ(fake::alive(), 0);
}

// The next call uses the pinned memory again, and waits for the copy if necessary.
TEST(Staged, TheHostDoesNotWaitForTheCopyOfTheResult) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world, {4096, milliseconds(0)});
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> values(100, world.rank()), all(200), more(200);
    std::atomic<bool> returned = false, returned_first = false;
    on_gpu->allgather(values, all, stream.get(), {});  // makes its memory
    fake::finish(stream.get());
    world.barrier();
    if (world.rank() == 0)
      fake::before_copies([&, to = static_cast<const void*>(all.data())](const void* copied_to) {
        if (copied_to != to) return;
        for (int i = 0; i < 5000 && !returned; i++) std::this_thread::sleep_for(milliseconds(1));
        returned_first = returned.load();
      });
    world.barrier();
    on_gpu->allgather(values, all, stream.get(), {});
    returned = true;
    world.barrier();
    values.assign(100, 7);
    on_gpu->allgather(values, more, stream.get(), {});
    fake::finish(stream.get());
    world.barrier();
    if (world.rank() == 0) fake::before_copies(nullptr);
    EXPECT_EQ(returned_first, world.rank() == 0);
    EXPECT_EQ(all.back(), 1);
    EXPECT_EQ(more, std::vector<int>(200, 7));
  });
}

TEST(Staged, WaitsForWhatWasQueuedAndIsWaitedFor) {
  run_world(2, [&](World& world) { expect_the_streams_order(*staged(world), fake::device(world.rank() % 2)); });
}

// A rank that only receives copies nothing from the device, but must still wait.
TEST(Staged, AReceivedTensorDoesNotOvertakeWhatWasQueued) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world);
    const Stream stream = make_stream(fake::device(world.rank()));
    for (int round = 1; round <= 5; round++) {
      std::vector<int> values(100, round);
      fake::queue(stream.get(), [&] {
        if (world.rank() == 0) return;
        std::this_thread::sleep_for(milliseconds(10));
        values.assign(values.size(), -1);
      });
      const Tensor tensor(values);
      on_gpu->broadcast(std::span(&tensor, 1), 0, stream.get(), {});
      fake::finish(stream.get());
      EXPECT_EQ(values, std::vector<int>(100, round));
    }
  });
}

TEST(Staged, ACallThatFailsOnTheDeviceEndsTheWorldAndSaysWhich) {
  for (const char* call : {"copy", "event_record", "stream_wait", "event_query"}) {
    for (const int after : {0, 7, 20}) {
      const std::vector<Told> told = told_on_all_ranks(3, [&](World& world) {
        const auto on_gpu = staged(world);
        std::vector<int> values(1000, 1);
        if (world.rank() == 1) fake::fail(call, after);
        try {
          on_gpu->allreduce(values, values, nullptr, Op::sum, {});
        } catch (const Error&) {
          fake::recover();
          const std::vector<int> as_it_was = values;
          fake::wait_for_all();
          EXPECT_EQ(values, as_it_was) << "copies go on after " << call << " " << after;
          throw;
        }
      });
      EXPECT_EQ(told[1].error->code(), ErrorCode::device) << call << " " << after;
      EXPECT_THAT(told[1].error->message(), HasSubstr("GPU 1")) << call;
      for (const int other : {0, 2}) {
        EXPECT_EQ(told[other].error->code(), ErrorCode::aborted) << call << " " << after;
        EXPECT_THAT(told[other].error->message(), HasSubstr("the fake is broken")) << call;
      }
      EXPECT_EQ(fake::alive(), 0);
    }
  }
}

TEST(Staged, ADeviceThatHangsIsGivenUpAfterTheLimit) {
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Told> told = told_on_all_ranks(2, [&](World& world) {
    const auto on_gpu = staged(world, {kSegmentBytes, milliseconds(1000)});
    std::vector<int> values(1000, 1);
    on_gpu->allreduce(values, values, nullptr, Op::sum, {});
    world.barrier();
    if (world.rank() == 0) fake::hang();
    world.barrier();
    on_gpu->allreduce(values, values, nullptr, Op::sum, {});
  });
  fake::recover();
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(20000));
  for (const Told& each : told) EXPECT_THAT(each.error->message(), HasSubstr("took more than 1000 ms"));
  EXPECT_EQ(fake::reclaim(), 6) << "memory that a device may still use is leaked";
  EXPECT_EQ(fake::alive(), 0);
}

TEST(Owners, LetGoOnceAndMove) {
  {
    Stream one = make_stream(fake::device());
    Stream two = std::move(one);
    EXPECT_FALSE(one);
    EXPECT_TRUE(two);
    one = make_stream(fake::device());
    EXPECT_EQ(fake::alive(), 2);
    one = std::move(two);
    const DeviceMemory memory = make_memory(fake::device(1), 100);
    int owner = -1;
    fake::table().device_of(static_cast<const char*>(memory.get()) + 99, &owner);
    EXPECT_EQ(owner, 1);
    fake::table().get_device(&owner);
    EXPECT_EQ(owner, 0) << "the current device is as it was";
    EXPECT_FALSE(make_memory(fake::device(), 0)) << "no call takes no bytes";
    copy(fake::device(), nullptr, nullptr, 0, one.get());
    zero(fake::device(), nullptr, 0, one.get());
  }
  EXPECT_EQ(fake::alive(), 0);
}

TEST(Owners, ThatCannotBeMadeSayWhy) {
  fake::fail("pinned_create");
  try {
    make_pinned(fake::device(1), 100);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_STREQ(error.what(), "GPU 1: allocating 100 bytes of pinned host memory: the fake is broken");
  }
  fake::recover();
  EXPECT_THROW(make_stream(fake::device(7)), Error);
}

}  // namespace
}  // namespace anello::gpu
