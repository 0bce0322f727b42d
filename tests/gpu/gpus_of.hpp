// A GpuGroup of all ranks of a world, over fake GPUs.
#pragma once
#include <numeric>

#include "gpu/gpu_group.hpp"
#include "tests/gpu/fake_nccl.hpp"
#include "tests/gpu/on_fake_gpu.hpp"

namespace anello {

namespace fake = gpu::fake;
using Choice = GpuGroupAccess::Impl::Options;

inline GpuGroupAccess::Impl::Tables load() {
  return {&fake::table()};
}

inline GpuGroup gpus_of(World& world, const Choice& choice = {}, const GpuGroupAccess::Impl::FindTables& from = load) {
  std::vector<int> all(std::size_t(world.size()));
  std::iota(all.begin(), all.end(), 0);
  fake::nccl_moves_with(world.group(all));
  fake::pretend(choice.device.value_or(world.local_rank() % 4));
  return GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(world, world, choice, from));
}

}  // namespace anello
