// Memory that is registered with NCCL.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <optional>

#include "ring/base/log.hpp"
#include "tests/gpu/gpus_of.hpp"

namespace anello {
namespace {

using ::testing::HasSubstr;

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::protocol, "nothing was thrown"};
}

TEST(GpuMemory, IsRegisteredAsLongAsItsHandleLives) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    fake::pretend(-1);
    const gpu::DeviceMemory own = gpu::make_memory(fake::device(world.rank()), 400);
    world.barrier();
    {
      GpuMemory made = gpus.allocate(400);
      EXPECT_EQ(made.bytes(), 400u);
      GpuMemory told = gpus.register_memory(own.get(), 400);
      EXPECT_EQ(told.data(), own.get());
      world.barrier();
      EXPECT_EQ(fake::nccl_registered(), 4);
      world.barrier();
      std::vector<float> values(100, float(world.rank() + 1)), found(100);
      gpu::copy(fake::device(world.rank()), made.data(), values.data(), 400, stream.get());
      gpus.allreduce(Tensor(made.data(), 100, DType::f32), stream.get());
      gpu::copy(fake::device(world.rank()), found.data(), made.data(), 400, stream.get());
      gpus.synchronize(stream.get());
      EXPECT_EQ(found, std::vector<float>(100, 3));
      const GpuMemory moved = std::move(made);
      EXPECT_EQ(made.data(), nullptr);
      EXPECT_NE(moved.data(), nullptr);
      world.barrier();
    }
    world.barrier();
    EXPECT_EQ(fake::nccl_registered(), 0);
    world.barrier();
  });
  EXPECT_EQ(fake::alive(), 0);
}

// The memory is no longer registered when the group has ended.
TEST(GpuMemory, MayOutliveItsGroup) {
  run_world(2, [](World& world) {
    std::optional<GpuGroup> gpus(gpus_of(world));
    const GpuMemory made = gpus->allocate(400);
    gpus.reset();
    world.barrier();
    EXPECT_EQ(fake::nccl_registered(), 0);
  });
  EXPECT_EQ(fake::alive(), 0);
}

TEST(GpuMemory, OfAWorldThatHasFailedIsFreed) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         GpuGroup gpus = gpus_of(world);
         const GpuMemory made = gpus.allocate(400);
         world.barrier();
         if (world.rank() == 1) world.abort("enough");
         for (;;) gpus.synchronize(nullptr);
       }))
    EXPECT_TRUE(told.error);
  EXPECT_EQ(fake::alive(), 0);
}

TEST(GpuMemory, ThatCannotBeFreedIsInTheLog) {
  set_log(Severity::info, "");
  ::testing::internal::CaptureStderr();
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    const GpuMemory made = gpus.allocate(400);
    if (world.rank() == 1) fake::fail("memory_destroy");
  });
  set_log(Severity::warning, "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("memory of a GPU could not be freed: GPU 1: NCCL could not free memory: the fake is broken"));
  EXPECT_EQ(fake::reclaim(), 1);
  EXPECT_EQ(fake::alive(), 0);
}

TEST(GpuMemory, IsPlainInAGroupOfOne) {
  run_world(1, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    const GpuMemory made = gpus.allocate(400);
    const GpuMemory told = gpus.register_memory(made.data(), 400);
    int device = -1;
    fake::table().device_of(made.data(), &device);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(fake::nccl_registered(), 0);
  });
  EXPECT_EQ(fake::alive(), 0);
}

TEST(GpuMemory, SaysWhyItCannotBeRegistered) {
  const auto why_of = [](const Choice& choice, int version) {
    std::string why;
    run_world(2, [&](World& world) {
      fake::nccl_faults().version = version;
      GpuGroup gpus = gpus_of(world, choice);
      std::vector<float> values(100);
      const Error allocated = error_of([&] { (void)gpus.allocate(400); });
      const Error registered = error_of([&] { (void)gpus.register_memory(values.data(), 400); });
      EXPECT_EQ(allocated.code(), ErrorCode::unsupported) << allocated.what();
      EXPECT_STREQ(allocated.what(), registered.what());
      EXPECT_FALSE(world.failure());
      if (world.rank() == 0) why = allocated.what();
      world.barrier();
    });
    return why;
  };
  EXPECT_EQ(why_of({.backend = "staged"}, 22809),
            "memory can be registered with NCCL only, and this group is staged: ANELLO_GPU_BACKEND=staged");
  EXPECT_EQ(why_of({}, 21803), "NCCL 2.18.3 cannot register memory; 2.19 or newer is needed");
}

TEST(GpuMemory, ThatIsNotThereIsRefused) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    EXPECT_THAT(error_of([&] { (void)gpus.allocate(0); }).what(), HasSubstr("the size must be more than 0 bytes"));
    EXPECT_THAT(error_of([&] { (void)gpus.register_memory(nullptr, 4); }).what(),
                HasSubstr("the memory is null or has 0 bytes"));
    fake::pretend(-1);
    std::vector<float> values(100);
    EXPECT_THAT(error_of([&] { (void)gpus.register_memory(values.data(), 400); }).what(), HasSubstr("in host memory"));
    const gpu::DeviceMemory other = gpu::make_memory(fake::device(3), 400);
    EXPECT_THAT(error_of([&] { (void)gpus.register_memory(other.get(), 400); }).what(), HasSubstr("is on GPU 3"));
    const gpu::DeviceMemory own = gpu::make_memory(fake::device(world.rank()), 400);
    const GpuMemory once = gpus.register_memory(own.get(), 400);
    const Error twice = error_of([&] { (void)gpus.register_memory(own.get(), 400); });
    EXPECT_EQ(twice.code(), ErrorCode::device);
    EXPECT_THAT(twice.what(), HasSubstr("registering memory: NCCL on GPU"));
    fake::fail("memory_create");
    EXPECT_THAT(error_of([&] { (void)gpus.allocate(400); }).what(), HasSubstr("NCCL could not allocate 400 bytes"));
    EXPECT_FALSE(world.failure());
    world.barrier();
  });
  EXPECT_EQ(fake::alive(), 0);
}

}  // namespace
}  // namespace anello
