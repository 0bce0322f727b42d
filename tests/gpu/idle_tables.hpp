// Tables that do nothing, to measure only our own code. Two devices, one in each thread.
#pragma once
#include <anello/gpu.hpp>
#include <cstdio>
#include <cstdlib>

#include "gpu/kernels/kernel_table.h"
#include "gpu/table.h"

namespace anello {

inline const AnelloNcclTable& idle_nccl() {
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
    idle.group_start = idle.group_end = [] { return 0; };
    idle.scaled_sum_create = [](int* op, double, int, void*) { return *op = 1, 0; };
    idle.scaled_sum_destroy = [](int, void*) { return 0; };
    idle.allreduce = [](const void*, void*, std::size_t, int, int, void*, GpuStream) { return 0; };
    return idle;
  }();
  return table;
}

inline thread_local int current = 0;

inline const AnelloGpuTable& idle_gpu() {
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
    idle.memory_create =
        idle.pinned_create = [](void** memory, std::size_t bytes) { return *memory = std::malloc(bytes), 0; };
    idle.memory_destroy = idle.pinned_destroy = [](void* memory) { return std::free(memory), 0; };
    idle.copy = [](void*, const void*, std::size_t, GpuStream) { return 0; };
    idle.zero = [](void*, std::size_t, GpuStream) { return 0; };
    idle.stream_create = [](GpuStream* stream, int) { return *stream = reinterpret_cast<GpuStream>(stream), 0; };
    idle.stream_destroy = [](GpuStream) { return 0; };
    idle.event_create = [](void** event) { return *event = event, 0; };
    idle.event_destroy = idle.event_query = [](void*) { return 0; };
    idle.event_record = [](void*, GpuStream) { return 0; };
    idle.stream_wait = [](GpuStream, void*) { return 0; };
    idle.is_capturing = [](GpuStream, int* capturing) { return *capturing = 0, 0; };
    idle.ignore_captures = [] { return 0; };
    idle.capture_begin = [](GpuStream) { return 0; };
    idle.capture_end = [](GpuStream, void** graph) { return *graph = graph, 0; };
    idle.graph_launch = [](void*, GpuStream) { return 0; };
    idle.graph_destroy = [](void*) { return 0; };
    idle.nccl = [](const char**) { return &idle_nccl(); };
    return idle;
  }();
  return table;
}

inline const AnelloKernelTable& idle_kernels() {
  static const AnelloKernelTable table = [] {
    AnelloKernelTable idle{};
    idle.version = ANELLO_KERNEL_TABLE_VERSION;
    idle.describe = [](int) { return ""; };
    idle.cast = [](const AnelloPart*, std::size_t, int, int, double, GpuStream) { return 0; };
    idle.create = [](void**) { return 0; };
    idle.destroy = [](void*) { return 0; };
    idle.multiply = [](void*, const float*, int, const float*, int, float*, std::size_t, std::size_t, std::size_t,
                       GpuStream) { return 0; };
    idle.gather = [](const std::uint8_t*, const std::uint8_t*, const std::uint32_t*, float, float, float*,
                     std::uint8_t*, std::size_t, std::size_t, GpuStream) { return 0; };
    idle.add_to_rows = [](const float*, float*, std::size_t, std::size_t, GpuStream) { return 0; };
    idle.sum_rows = idle.add_to_rows;
    idle.relu = [](const float*, float*, std::size_t, GpuStream) { return 0; };
    idle.relu_gradient = [](const float*, const float*, float*, std::size_t, GpuStream) { return 0; };
    idle.cross_entropy = [](const float*, const std::uint8_t*, float*, AnelloScore*, std::size_t, std::size_t,
                            GpuStream) { return 0; };
    idle.momentum_step = [](float*, const float*, float*, float, float, std::size_t, GpuStream) { return 0; };
    return idle;
  }();
  return table;
}

}  // namespace anello
