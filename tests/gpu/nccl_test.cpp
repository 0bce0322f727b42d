// NCCL's path over a fake NCCL: the calls of NCCL for each verb.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/gpu/on_fake_nccl.hpp"
#include "tests/support/resources.hpp"

namespace anello::gpu {
namespace {

using ::testing::HasSubstr;

class NcclInWorldsOf : public ::testing::TestWithParam<int> {
 protected:
  void expect_all_right(const std::vector<Exercise>& exercises, const fake::NcclFaults& faults = {}) {
    run_world(GetParam(), [&](World& world) {
      fake::nccl_faults() = faults;
      const auto on_gpu = nccl(world);
      std::vector<Exercise> possible;
      for (const Exercise& exercise : exercises)
        if (on_gpu->can(
                {.kind = exercise.kind, .op = exercise.op, .dtype = exercise.dtype, .postscale = exercise.postscale}))
          possible.push_back(exercise);
      EXPECT_FALSE(possible.empty());
      expect_right(*on_gpu, world, fake::device(world.rank()), possible);
    });
    EXPECT_EQ(fake::alive(), 0);
    EXPECT_EQ(fake::nccl_alive(), 0);
  }
};

TEST_P(NcclInWorldsOf, AllKinds) {
  std::vector<Exercise> all;
  for (const std::uint64_t count : {0, 1, 17, 500})
    for (const Exercise& exercise : exercises_of_all_kinds(count, GetParam() - 1)) all.push_back(exercise);
  expect_all_right(all);
}

TEST_P(NcclInWorldsOf, CallsThatAreInProgressForAWhile) {
  expect_all_right(exercises_of_all_kinds(100, 0), {.looks = 150});
}

// If a rank took a call in progress for a refused call, it would queue a send without its recv, and the peer would wait
// forever.
TEST_P(NcclInWorldsOf, CallsOfAGroupThatAreInProgress) {
  expect_all_right(exercises_of_all_kinds(100, 0), {.groups_are_in_progress = true});
}

TEST_P(NcclInWorldsOf, AllTypesAndReductions) {
  expect_all_right(exercises_of_all_reductions());
}

TEST_P(NcclInWorldsOf, Factors) {
  expect_all_right({{.count = 100, .prescale = 2, .postscale = 0.5},
                    {.op = Op::average, .count = 100, .postscale = 4},
                    {.kind = Kind::reduce_scatter, .count = 100, .postscale = 2},
                    {.kind = Kind::reduce_scatter, .count = 100, .uneven = true, .postscale = 2}});
}

TEST_P(NcclInWorldsOf, Lists) {
  run_world(GetParam(), [&](World& world) {
    const auto on_gpu = nccl(world);
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> one(5, 1), none, two(100, 2), three(7, world.rank());
    on_gpu->allreduce(std::vector<Tensor>{one, none, two}, stream.get(), Op::sum, {});
    on_gpu->broadcast(std::vector<Tensor>{three, none}, world.size() - 1, stream.get(), {});
    on_gpu->allreduce(std::span<const Tensor>{}, stream.get(), Op::sum, {});
    fake::finish(stream.get());
    EXPECT_EQ(one, std::vector<int>(5, world.size()));
    EXPECT_EQ(two, std::vector<int>(100, 2 * world.size()));
    EXPECT_EQ(three, std::vector<int>(7, world.size() - 1));
  });
}

TEST_P(NcclInWorldsOf, PartsOfACommunicator) {
  run_world(GetParam(), [&](World& world) {
    const auto on_gpu = nccl(world);
    const int colour = world.rank() % 2;
    Group same = world.split(colour, -world.rank());
    const auto part = on_gpu->split(same);
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> ranks(10, world.rank());
    part->carry_out(calls::allreduce(ranks, ranks, Op::min, {}), stream.get());
    fake::finish(stream.get());
    EXPECT_EQ(ranks, std::vector<int>(10, colour));
  });
  EXPECT_EQ(fake::nccl_alive(), 0);
}

// A communicator has its own group, whose descriptors show whether it still exists. The last few groups of a world that
// have ended are closed later.
TEST_P(NcclInWorldsOf, APartThatHasEndedHoldsNothing) {
  constexpr int kParts = 20, kLate = 5;
  constexpr std::chrono::seconds kLimit{20};
  run_world(GetParam(), [&](World& world) {
    const auto on_gpu = nccl(world);
    Group same = world.split(0, world.rank());
    on_gpu->split(same);
    world.barrier();
    const std::ptrdiff_t before = entries("/proc/self/fd");
    world.barrier();
    for (int i = 0; i < kParts; i++) on_gpu->split(same);
    world.barrier();
    const auto most = before + kLate * GetParam();
    for (const auto end = std::chrono::steady_clock::now() + kLimit;
         entries("/proc/self/fd") > most && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LE(entries("/proc/self/fd"), most);
    world.barrier();
    std::vector<std::unique_ptr<Nccl>> living;
    for (int i = 0; i < kParts; i++) living.push_back(on_gpu->split(same));
    world.barrier();
    EXPECT_GT(entries("/proc/self/fd"), most);
    world.barrier();
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, NcclInWorldsOf, ::testing::Values(2, 4));

TEST(Nccl, Transfers) {
  run_world(2, [&](World& world) {
    for (const bool compare : {false, true}) {
      const auto on_gpu = nccl(world, kLimits, compare);
      const Stream stream = make_stream(fake::device(world.rank()));
      std::vector<int> sent(70, world.rank() + 7), received(70);
      if (world.rank() == 0)
        on_gpu->send(sent, 1, stream.get(), {});
      else
        on_gpu->recv(received, 0, stream.get(), {});
      fake::finish(stream.get());
      EXPECT_EQ(received, std::vector<int>(70, world.rank() == 1 ? 7 : 0));
    }
  });
}

// Each rank announces its next operation to its peer, even if it has nothing for the peer.
TEST(Nccl, ExchangesWithAnEmptySide) {
  run_world(2, [&](World& world) {
    for (const bool compare : {false, true}) {
      const auto on_gpu = nccl(world, kLimits, compare);
      const Stream stream = make_stream(fake::device(world.rank()));
      const int me = world.rank(), other = 1 - me;
      std::vector<int> none, sent(5, me + 7), received(5), first(9, me), last(9);
      if (me == 0) {
        on_gpu->exchange(none, other, received, other, stream.get(), {});
        on_gpu->exchange(none, other, received, other, stream.get(), {});
      } else {
        on_gpu->exchange(sent, other, none, other, stream.get(), {});
        on_gpu->recv(none, other, stream.get(), {});
        on_gpu->send(sent, other, stream.get(), {});
      }
      on_gpu->exchange(none, other, none, other, stream.get(), {});
      on_gpu->exchange(first, other, last, other, stream.get(), {});
      fake::finish(stream.get());
      EXPECT_EQ(received, std::vector<int>(5, me == 0 ? 8 : 0));
      EXPECT_EQ(last, std::vector<int>(9, other));
      // these messages come after all announcements of the two ranks
      Work coming = world.recv_async(received, other);
      world.send(sent, other);
      coming.wait();
    }
  });
}

TEST(Nccl, ExchangesInARing) {
  run_world(3, [&](World& world) {
    const auto on_gpu = nccl(world, kLimits, true);
    const Stream stream = make_stream(fake::device(world.rank()));
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    std::vector<int> sent(50, world.rank()), received(50);
    for (int round = 0; round < 3; round++) on_gpu->exchange(sent, next, received, before, stream.get(), {});
    fake::finish(stream.get());
    EXPECT_EQ(received, std::vector<int>(50, before));
    world.barrier();
  });
}

TEST(Nccl, SaysWhatItCannotDo) {
  run_world(1, [&](World& world) {
    const auto on_gpu = nccl(world);
    EXPECT_TRUE(on_gpu->can({.kind = Kind::allreduce, .op = Op::average, .dtype = DType::f32, .prescale = 2}));
    EXPECT_FALSE(on_gpu->can({.kind = Kind::allreduce, .op = Op::max, .dtype = DType::f32, .postscale = 2}));
    EXPECT_FALSE(on_gpu->can({.kind = Kind::allreduce, .op = Op::sum, .dtype = DType::f32, .wire = DType::f16}));
    EXPECT_FALSE(on_gpu->can({.kind = Kind::allreduce, .op = Op::bit_or, .dtype = DType::i32}));
    EXPECT_FALSE(on_gpu->can({.kind = Kind::allreduce, .op = Op::sum, .dtype = DType::i16}));
  });
}

// Only rank 1 has a factor, and fails because there are no kernels for it. The other rank must not wait forever.
TEST(Nccl, AFactorBeforeAMaximumNeedsKernels) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         const auto on_gpu = nccl(world);
         std::vector<float> values(100, 1);
         for (;;) {
           on_gpu->allreduce(values, values, nullptr, Op::max, {.prescale = world.rank() == 1 ? 2.0 : 1.0});
           fake::finish(nullptr);
         }
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_THAT(told.error->what(), HasSubstr("a prescale with max needs libanello_kernels.so"));
  }
}

TEST(Nccl, WaitsForWhatWasQueuedAndIsWaitedFor) {
  run_world(2, [&](World& world) { expect_the_streams_order(*nccl(world), fake::device(world.rank())); });
}

}  // namespace
}  // namespace anello::gpu
