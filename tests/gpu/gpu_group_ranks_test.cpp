// GpuGroups of a part of the world and with several GPUs in a rank, and the errors that all their ranks receive.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <atomic>
#include <thread>

#include "tests/gpu/gpus_of.hpp"
#include "tests/gpu/on_fake_nccl.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

GpuGroup gpus_of_part(World& world, const std::vector<int>& ranks, const Choice& choice,
                      const GpuGroupAccess::Impl::FindTables& from = load) {
  fake::nccl_moves_with(world.group(ranks));
  fake::pretend(choice.device.value_or(world.local_rank() % 4));
  return GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(world, world.group(ranks), choice, from));
}

class GpuGroupRanks : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuGroupRanks, ::testing::Values("nccl", "staged"),
                         [](const auto& one) { return one.param; });

// The ranks make a group without split(), which would need all ranks; the other ranks make no call at all.
TEST_P(GpuGroupRanks, AreAPartOfTheWorld) {
  run_world(4, [](World& world) {
    if (world.rank() % 2 == 0) return;
    GpuGroup gpus = gpus_of_part(world, {3, 1}, {.backend = GetParam()});
    EXPECT_EQ(gpus.backend(), GetParam());
    EXPECT_EQ(gpus.group().rank(), world.rank() == 3 ? 0 : 1);
    std::vector<int> values(100, world.rank()), first(100, world.rank());
    gpus.allreduce(values, nullptr);
    gpus.broadcast(first, 0, nullptr);
    gpus.synchronize(nullptr);
    EXPECT_EQ(values, std::vector<int>(100, 4));
    EXPECT_EQ(first, std::vector<int>(100, 3));
  });
  EXPECT_EQ(fake::alive(), 0);
}

TEST(GpuGroupOfAPart, NamesRanksByTheirNumbersInTheWorld) {
  const std::vector<Told> told = told_on_all_ranks(3, [](World& world) {
    if (world.rank() == 0) return;
    const auto trouble = [&]() -> GpuGroupAccess::Impl::Tables {
      if (world.rank() == 2) throw Error(ErrorCode::unsupported, "no plugin");
      return load();
    };
    gpus_of_part(world, {1, 2}, {}, trouble);
  });
  for (const int rank : {1, 2}) {
    ASSERT_TRUE(told[std::size_t(rank)].error);
    EXPECT_THAT(told[std::size_t(rank)].error->what(), HasSubstr("rank 2 on localhost: no plugin"));
    EXPECT_EQ(told[std::size_t(rank)].error->rank(), 2);
  }
}

TEST_P(GpuGroupRanks, HaveSeveralGpus) {
  run_world(2, [](World& world) {
    const int devices[] = {world.rank(), world.rank() + 2};
    std::vector<GpuGroup> groups;
    std::vector<gpu::DeviceMemory> memory;
    std::vector<gpu::Stream> streams;
    for (const int device : devices) {
      groups.push_back(gpus_of(world, {.backend = GetParam(), .device = device}));
      memory.push_back(gpu::make_memory(fake::device(device), 400));
      streams.push_back(gpu::make_stream(fake::device(device)));
      EXPECT_EQ(groups.back().device(), device);
    }
    fake::pretend(-1);
    std::vector<int> values(100, world.rank() + 1), found(100);
    for (std::size_t i = 0; i < 2; i++) {
      const gpu::Device device = fake::device(devices[i]);
      gpu::copy(device, memory[i].get(), values.data(), 400, streams[i].get());
      groups[i].allreduce(Tensor(memory[i].get(), 100, DType::i32), streams[i].get());
    }
    for (std::size_t i = 0; i < 2; i++) {
      gpu::copy(fake::device(devices[i]), found.data(), memory[i].get(), 400, streams[i].get());
      groups[i].synchronize(streams[i].get());
      EXPECT_EQ(found, std::vector<int>(100, 3));
    }
    EXPECT_THROW(groups[0].allreduce(Tensor(memory[1].get(), 100, DType::i32), streams[0].get()), Error);
    EXPECT_FALSE(groups[0].failure());
  });
}

TEST_P(GpuGroupRanks, LeaveNothingBehind) {
  run_world(2, [](World& world) {
    for (int i = 0; i < 50; i++) {
      GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
      std::vector<float> values(100, 1), own(50);
      gpus.allreduce(values, nullptr, Op::sum, {.wire = DType::f16});
      gpus.reduce_scatter(values, own, nullptr);
      gpus.synchronize(nullptr);
    }
  });
  EXPECT_EQ(fake::alive(), 0);
  EXPECT_EQ(fake::nccl_alive(), 0);
}

TEST_P(GpuGroupRanks, WaitForEachOthersQueuedWork) {
  std::atomic<bool> done = false;
  run_world(2, [&](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    if (world.rank() == 1)
      fake::queue(stream.get(), [&] {
        std::this_thread::sleep_for(milliseconds(100));
        done = true;
      });
    gpus.barrier(stream.get());
    EXPECT_TRUE(done);
  });
}

TEST_P(GpuGroupRanks, EndTheWorld) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
         EXPECT_FALSE(gpus.failure());
         world.barrier();
         if (world.rank() == 1) gpus.abort("enough");
         while (!gpus.failure()) std::this_thread::sleep_for(milliseconds(1));
         throw *gpus.failure();
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->rank(), 1);
    EXPECT_THAT(told.error->what(), HasSubstr("enough"));
  }
}

// Each abandoned communicator still has a thread, and kernels that run, so a process may leave only a few behind.
TEST(GpuGroup, IsRefusedToAProcessThatHasLeftManyCommunicatorsBehind) {
  gpu::NcclCommunicator::Limits limits;
  limits.end = milliseconds(1);
  for (int world = 0; world < 8; world++)
    run_world(1, [&](World& each) {
      EXPECT_EQ(gpus_of(each).backend(), "single");
      fake::nccl_faults().abort_takes_ms = 5000;
      const auto on_gpu = gpu::nccl(each, limits);
      each.abort("enough");
    });
  const std::vector<Told> told = told_on_all_ranks(1, [](World& world) { gpus_of(world); });
  ASSERT_TRUE(told[0].error);
  EXPECT_EQ(told[0].error->code(), ErrorCode::device);
  EXPECT_THAT(told[0].error->what(), HasSubstr("8 communicators do not end; this process must be started again"));
  while (gpu::NcclCommunicator::left_behind() > 0) std::this_thread::sleep_for(milliseconds(10));
}

}  // namespace
}  // namespace anello
