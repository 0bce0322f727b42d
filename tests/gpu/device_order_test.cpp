// On a real GPU: the order of slow kernels, errors, and leaks. tests/gpu.sh runs some of these tests in separate
// processes, since a process that accesses an illegal address on a GPU cannot use this GPU any more.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <anello/gpu.hpp>
#include <anello/init.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/gpu/on_gpu.hpp"
#include "tests/gpu/real_gpu.hpp"
#include "tests/gpu/verbs.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;

// Work for which the device needs some milliseconds.
class SlowWork {
 public:
  explicit SlowWork(GpuStream stream) : stream_(stream) {
    EXPECT_EQ(kernels()->create(&context_), 0);
    for (gpu::DeviceMemory& matrix : matrices_) {
      matrix = gpu::make_memory(device(), kSide * kSide * sizeof(float));
      gpu::zero(device(), matrix.get(), kSide * kSide * sizeof(float), stream);
    }
  }
  ~SlowWork() { kernels()->destroy(context_); }
  void queue() {
    float* of[3];
    for (std::size_t i = 0; i < 3; i++) of[i] = static_cast<float*>(matrices_[i].get());
    EXPECT_EQ(kernels()->multiply(context_, of[0], 0, of[1], 0, of[2], kSide, kSide, kSide, stream_), 0);
  }

 private:
  static constexpr std::size_t kSide = 4096;
  GpuStream stream_;
  void* context_ = nullptr;
  gpu::DeviceMemory matrices_[3];
};

class OrderOnTheDevice : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, OrderOnTheDevice, ::testing::Values("auto", "staged"),
                         [](const auto& one) { return one.param; });

// Each round writes another value behind slow work. The copy that is queued after the call must see the call's result.
TEST_P(OrderOnTheDevice, CallsWaitForSlowWorkAndAreWaitedFor) {
  run_world(GetParam() == "auto" ? 1 : 2, [](World& world) {
    GpuGroup gpus = GpuGroupAccess::make(ranks_on_one_gpu(world, {.backend = GetParam()}));
    const gpu::DeviceGuard guard(device());
    const gpu::Stream own = gpu::make_stream(device());
    constexpr std::size_t kCount = 300007;
    for (const GpuStream stream : {own.get(), GpuStream(nullptr)}) {
      SlowWork slow(stream);
      const std::vector<float> nothing(kCount);
      const Mirror in(nothing.data(), kCount * 4, stream), out(nothing.data(), kCount * 4, stream);
      for (int round = 1; round <= 3; round++) {
        const std::vector<float> values(kCount, float(round));
        std::vector<float> found(kCount);
        slow.queue();
        gpu::copy(device(), in.get(), values.data(), kCount * 4, stream);
        gpus.allreduce(ConstTensor(in.get(), kCount, DType::f32), Tensor(out.get(), kCount, DType::f32), stream);
        out.back_to(found.data(), stream);
        gpus.synchronize(stream);
        EXPECT_THAT(found, Each(float(round * world.size()))) << "round " << round;
      }
    }
  });
}

// The plugin's table has no call for the free memory, so this function asks the driver that the plugin has loaded.
std::size_t free_on_device() {
  const gpu::DeviceGuard guard(device());
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto ask =
      driver ? reinterpret_cast<int (*)(std::size_t*, std::size_t*)>(dlsym(driver, "cuMemGetInfo_v2")) : nullptr;
  std::size_t free = 0, whole = 0;
  EXPECT_TRUE(ask && ask(&free, &whole) == 0);
  return free;
}

// Reads the kernel's number of free bytes; it does not include pinned memory, which other programs cannot use.
std::size_t free_on_host() {
  std::ifstream counts("/proc/meminfo");
  for (std::string name, rest; counts >> name; std::getline(counts, rest))
    if (std::size_t kib = 0; name == "MemAvailable:" && counts >> kib) return kib << 10;
  ADD_FAILURE() << "/proc/meminfo has no MemAvailable";
  return 0;
}

// Streams, events and the pinned memory of the segments are given back. A group has three segments, so 200 groups have
// 9.4 GiB of memory on the host; the test leaves half of this for other programs. On the device they have only streams
// and events. The first group is not counted, because it also makes objects that the process keeps.
TEST(DeviceTrouble, TwoHundredGroupsLeaveNothingBehind) {
  constexpr std::size_t kSegmentBytes = 16 << 20, kGroups = 200;
  run_world(1, [](World& world) {
    const auto use_groups = [&](std::size_t groups) {
      for (std::size_t i = 0; i < groups; i++) {
        auto impl = ranks_on_one_gpu(world, {.backend = "staged", .staged = {kSegmentBytes, {}}});
        const auto staged = impl->another_staged();
      }
    };
    use_groups(1);
    const std::size_t device_before = free_on_device(), host_before = free_on_host();
    use_groups(kGroups);
    EXPECT_GT(free_on_device() + (64 << 20), device_before);
    EXPECT_GT(free_on_host() + kGroups * 3 * kSegmentBytes / 2, host_before);
  });
}

// Work that was queued on the stream before a call of NCCL counts as part of the call. Here it takes some seconds, and
// the limit is half a second.
TEST(DeviceTrouble, ACallOverItsLimitEndsTheWorld) {
  for (const Told& told : told_on_all_ranks(1, [](World& world) {
         const char* why = "";
         const AnelloNcclTable* const table = library().table().nccl(&why);
         ASSERT_TRUE(table) << why;
         GpuGroup gpus(world, {.device = 0});
         gpu::NcclCommunicator::Limits limits;
         limits.operation = milliseconds(500);
         gpu::Verbs<gpu::Nccl> nccl(world, device(), gpu::Nccl::Tables{table, kernels()}, limits, false);
         const gpu::DeviceGuard guard(device());
         const gpu::Stream stream = gpu::make_stream(device());
         const std::vector<float> values(1000, 1);
         const Mirror in(values.data(), 4000, stream.get()), out(values.data(), 4000, stream.get());
         SlowWork slow(stream.get());
         for (int i = 0; i < 1500; i++) slow.queue();
         nccl.allreduce(ConstTensor(in.get(), 1000, DType::f32), Tensor(out.get(), 1000, DType::f32), stream.get(),
                        Op::sum, {});
         gpus.synchronize(stream.get());
       })) {
    ASSERT_TRUE(told.error) << "the device was too fast, or nothing is limited";
    EXPECT_EQ(told.error->code(), ErrorCode::timed_out) << told.error->what();
  }
}

TEST(DeviceTrouble, NoMemoryIsAnErrorThatSaysHowMuch) {
  try {
    gpu::make_memory(device(), std::size_t(1) << 50);
    ADD_FAILURE() << "there is that much";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("1125899906842624 bytes of its memory"));
  }
  EXPECT_TRUE(gpu::make_memory(device(), 100)) << "it is not sticky";
}

// Runs in a process of its own. Every call reports the error, and destructors return.
TEST(DISABLED_BrokenDevice, EveryCallSaysSo) {
  for (const Told& told : told_on_all_ranks(1, [](World& world) {
         GpuGroup gpus = GpuGroupAccess::make(ranks_on_one_gpu(world, {.backend = "staged"}));
         const gpu::DeviceGuard guard(device());
         const gpu::Stream stream = gpu::make_stream(device());
         const std::vector<float> values(1000, 1);
         const Mirror mirror(values.data(), 4000, stream.get());
         const Tensor tensor(mirror.get(), 1000, DType::f32);
         EXPECT_EQ(kernels()->scale(2, reinterpret_cast<float*>(0x100), 1000, stream.get()), 0);
         std::this_thread::sleep_for(milliseconds(100));
         EXPECT_THROW(gpus.allreduce(tensor, stream.get()), Error);
         EXPECT_THROW(gpus.broadcast(tensor, 0, stream.get()), Error);
         gpus.synchronize(stream.get());
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::device) << told.error->what();
  }
}

// Two processes on one GPU, each with its own NCCL_HOSTID: NCCL takes them for two hosts. With one GPU, this is the
// only test of NCCL's threads, its split, and an abort with a peer.
TEST(DISABLED_NcclOfTwoRanks, MovesAndSplits) {
  World world = init();
  ASSERT_EQ(world.size(), 2);
  const char* why = "";
  const AnelloNcclTable* const table = library().table().nccl(&why);
  ASSERT_TRUE(table) << why;
  {
    gpu::Verbs<gpu::Nccl> nccl(world, device(), gpu::Nccl::Tables{table, kernels()}, gpu::NcclCommunicator::Limits(),
                               true);
    const gpu::DeviceGuard guard(device());
    const gpu::Stream stream = gpu::make_stream(device());
    constexpr std::size_t kCount = 131075;
    const std::vector<float> values(kCount, float(world.rank() + 1));
    const Mirror mirror(values.data(), kCount * 4, stream.get());
    const Tensor tensor(mirror.get(), kCount, DType::f32);
    nccl.allreduce(tensor, tensor, stream.get(), Op::average, {});
    const auto part = nccl.split(world.split(0, -world.rank()));
    const int other = world.rank();  // the part reverses the order, so the peer has this number there
    const Mirror arrived(values.data(), kCount * 4, stream.get());
    part->exchange(tensor, other, Tensor(arrived.get(), kCount, DType::f32), other, stream.get(), {});
    std::vector<float> found(kCount);
    arrived.back_to(found.data(), stream.get());
    const gpu::Event done = gpu::make_event(device());
    gpu::record(device(), done, stream.get());
    gpu::wait(device(), done, milliseconds(30000), "NCCL of two ranks");
    EXPECT_THAT(found, Each(1.5F));
  }
  world.finish();
}

}  // namespace
}  // namespace anello
