// Prints what one allreduce costs the host in our own code: NCCL's path with tables that do nothing, in a world of two
// threads. Needs no GPU. Started by hand; a machine that does other work gives larger figures.
#include <algorithm>
#include <anello/gpu.hpp>
#include <anello/testing.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "gpu/gpu_group.hpp"

namespace {

using namespace anello;

const AnelloNcclTable& idle_nccl() {
  static const AnelloNcclTable table = [] {
    AnelloNcclTable idle{};
    idle.describe = [](int) { return ""; };
    idle.details = [](void*) { return ""; };
    idle.version = [](int* version) { return *version = 22809, 0; };
    idle.has = [](int, int) { return 1; };
    idle.unique_id = [](AnelloNcclId*) { return 0; };
    idle.create = [](void** comm, int, const AnelloNcclId*, int) { return *comm = comm, 0; };
    idle.state = [](void*) { return 0; };
    idle.finalize = idle.destroy = idle.abort = [](void*) { return 0; };
    idle.allreduce = [](const void*, void*, std::size_t, int, int, void*, GpuStream) { return 0; };
    return idle;
  }();
  return table;
}

// One device in each thread.
thread_local int current = 0;

const AnelloGpuTable& idle_gpu() {
  static const AnelloGpuTable table = [] {
    AnelloGpuTable idle{};
    idle.version = ANELLO_GPU_TABLE_VERSION;
    idle.describe = [](int) { return ""; };
    idle.device_count = [](int* count) { return *count = 2, 0; };
    idle.device_info = [](int device, AnelloGpuInfo* info) {
      std::snprintf(info->uuid, sizeof info->uuid, "%d", device);
      std::snprintf(info->bus_id, sizeof info->bus_id, "%d", device);
      return 0;
    };
    idle.device_of = [](const void*, int* device) { return *device = current, 0; };
    idle.get_device = [](int* device) { return *device = current, 0; };
    idle.set_device = idle.return_to_device = [](int device) { return current = device, 0; };
    idle.event_create = [](void** event) { return *event = event, 0; };
    idle.event_destroy = idle.event_query = [](void*) { return 0; };
    idle.event_record = [](void*, GpuStream) { return 0; };
    idle.stream_wait = [](GpuStream, void*) { return 0; };
    idle.is_capturing = [](GpuStream, int* capturing) { return *capturing = 0, 0; };
    idle.ignore_captures = [] { return 0; };
    idle.nccl = [](const char**) { return &idle_nccl(); };
    return idle;
  }();
  return table;
}

double median_us(GpuGroup& gpus, Tensor tensor) {
  constexpr int kRounds = 101, kCalls = 1000;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; round++) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; i++) gpus.allreduce(tensor, nullptr);
    rounds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() /
                     kCalls);
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

}  // namespace

int main() {
  static const AnelloKernelTable kernels{};
  run_world(2, [](World& world) {
    idle_gpu().set_device(world.rank());
    GpuGroup gpus =
        GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(world, world, GpuGroupAccess::Impl::Options{}, [] {
          return GpuGroupAccess::Impl::Tables{&idle_gpu(), &kernels};
        }));
    std::array<float, 1> value{};
    for (int rank = 0; rank < world.size(); rank++) {
      if (rank == world.rank()) std::printf("allreduce of 4 bytes, rank %d: %.2f us\n", rank, median_us(gpus, value));
      world.barrier();
    }
  });
}
