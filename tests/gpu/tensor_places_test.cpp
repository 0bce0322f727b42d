// A call is carried out where the memory of its tensors is: on a device, or on the host.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <array>
#include <atomic>
#include <thread>

#include "ring/group/device_memory.hpp"
#include "tests/gpu/gpus_of.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// For host memory, GpuGroup makes the group's own call, after the work queued on the stream.
TEST(TensorPlaces, KnowsHostMemory) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    fake::pretend(-1);
    std::vector<int> values(100);
    const gpu::DeviceGuard guard(fake::device(world.rank()));  // a null stream is its default stream
    fake::queue(nullptr, [&] {
      std::this_thread::sleep_for(milliseconds(10));
      values.assign(values.size(), 4);
    });
    gpus.allreduce(values, nullptr);
    EXPECT_EQ(values, std::vector<int>(100, 8));
  });
}

// The receive has begun when the send is refused, and writes to the caller's memory until it is done.
TEST(TensorPlaces, AnExchangeWhoseSendIsRefusedWaitsForItsReceive) {
  alignas(64 << 10) static std::array<int, 16 << 10> refused;  // shares no block with the memory that is accepted
  group::tell_devices_by([](const void* memory) { return memory == refused.data() ? 1 : -1; });
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = "staged"});
    fake::pretend(-1);
    std::vector<int> values(100, world.rank());
    if (world.rank() == 0) {
      EXPECT_THROW(gpus.exchange(Tensor(refused.data(), 100, DType::i32), 1, values, 1, nullptr), Error);
      EXPECT_EQ(values, std::vector<int>(100, 1));
    } else {
      std::this_thread::sleep_for(milliseconds(100));
      gpus.send(values, 0, nullptr);
    }
  });
  group::tell_devices_by(nullptr);
}

// A Group must refuse device memory: reading it on the host is a segmentation fault.
TEST(TensorPlaces, KeepsItsMemoryOutOfAGroupsCalls) {
  const gpu::Device device = fake::device(1);
  gpu::keep_out_of_host_calls(device);
  run_world(2, [&](World& world) {
    const gpu::DeviceMemory memory = gpu::make_memory(device, 400);
    const Tensor tensor(memory.get(), 100, DType::f32);
    const std::vector<Tensor> list = {tensor};
    std::vector<float> host(100, 1);
    const std::function<void()> calls[] = {[&] { world.allreduce(tensor); }, [&] { world.allreduce(list); },
                                           [&] { world.broadcast_async(tensor, 0).wait(); },
                                           [&] { world.allreduce(host, tensor); },
                                           [&] { world.send(tensor, 1 - world.rank()); }};
    for (const auto& call : calls) try {
        call();
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_THAT(error.what(), HasSubstr("a tensor is in the memory of GPU 1; a Group takes host memory"));
      }
    world.allreduce(host);
    EXPECT_EQ(host, std::vector<float>(100, 2));
  });
  group::tell_devices_by(nullptr);
}

// The place of a tensor is asked for only once, because CUDA's answer takes longer than the start of a small
// collective.
TEST(TensorPlaces, OfTheHostAreAskedForOnce) {
  static std::atomic<int> asked = 0;
  group::tell_devices_by([](const void*) { return asked++, -1; });
  run_world(1, [&](World& world) {
    std::vector<float> first(100, 1), second(100, 1);
    for (int i = 0; i < 50; i++) {
      world.allreduce(first);
      world.allreduce(std::vector<Tensor>{first, second});
    }
  });
  group::tell_devices_by(nullptr);
  EXPECT_LE(asked, 2) << "blocks of host memory";
}

TEST(TensorPlaces, InPlaceIsAskedForOnce) {
  static std::atomic<int> asked = 0;
  static const AnelloGpuTable counting = [] {
    AnelloGpuTable table = fake::table();
    table.device_of = [](const void* memory, int* device) { return asked++, fake::table().device_of(memory, device); };
    return table;
  }();
  run_world(1, [](World& world) {
    GpuGroup gpus = gpus_of(world, {}, [] { return GpuGroupAccess::Impl::Tables{&counting}; });
    std::vector<float> values(100, 1);
    const int before = asked;
    gpus.allreduce(values, nullptr);
    EXPECT_EQ(asked - before, 1);
  });
}

// An example of a tensor without elements is an empty part, at the end of the buffer that holds all parts.
TEST(TensorPlaces, ThoseWithoutElementsMayLieAnywhere) {
  for (const std::string backend : {"nccl", "staged"})
    run_world(2, [&](World& world) {
      GpuGroup gpus = gpus_of(world, {.backend = backend});
      fake::pretend(-1);
      const gpu::DeviceMemory here = gpu::make_memory(fake::device(world.rank()), 400);
      const gpu::DeviceMemory elsewhere = gpu::make_memory(fake::device(3), 400);
      const std::span<int> values(static_cast<int*>(here.get()), 100);
      std::ranges::fill(values, 1);
      int host = 0;
      gpus.allreduce(std::vector<Tensor>{{&host, 0, DType::i32}, {here.get(), 100, DType::i32}}, nullptr);
      gpus.allreduce(std::vector<Tensor>{{here.get(), 100, DType::i32}, {elsewhere.get(), 0, DType::i32}}, nullptr);
      gpus.synchronize(nullptr);
      EXPECT_THAT(values, ::testing::Each(4));
      EXPECT_FALSE(world.failure());
    });
}

TEST(TensorPlaces, RefusesTensorsInOtherPlaces) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = "staged"});
    fake::pretend(-1);
    const gpu::DeviceMemory here = gpu::make_memory(fake::device(world.rank()), 400);
    const gpu::DeviceMemory elsewhere = gpu::make_memory(fake::device(3), 400);
    std::vector<int> host(100);
    const auto why = [&](ConstTensor input, Tensor output) -> std::string {
      try {
        gpus.allreduce(input, output, nullptr);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
      }
      return "accepted";
    };
    EXPECT_THAT(why(host, {here.get(), 100, DType::i32}), HasSubstr("one tensor is in the GPU's memory, another"));
    EXPECT_THAT(why({elsewhere.get(), 100, DType::i32}, {elsewhere.get(), 100, DType::i32}),
                HasSubstr(text("a tensor is on GPU 3, but this rank's is GPU ", world.rank())));
    EXPECT_THAT(why({here.get(), 100, DType::i32}, {here.get(), 99, DType::i32}), HasSubstr("100 elements"));
    EXPECT_FALSE(world.failure());
  });
}

}  // namespace
}  // namespace anello
