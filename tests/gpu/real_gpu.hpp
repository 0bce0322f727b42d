// The first GPU of the machine, for tests that need a real one.
#pragma once
#include <memory>
#include <string>

#include "gpu/gpu_group.hpp"
#include "gpu/plugin_loader.hpp"

namespace anello {

inline const gpu::DevicePlugin& library() {
  return gpu::installed(Settings::from_environment().gpu_plugin);
}
inline const AnelloKernelTable* kernels() {
  return &gpu::installed_kernels(Settings::from_environment().gpu_plugin);
}
inline gpu::Device device() {
  return {&library().table(), gpu::DeviceId{0}};
}

// A group whose ranks all use that GPU.
inline std::unique_ptr<GpuGroupAccess::Impl> ranks_on_one_gpu(World& world, GpuGroupAccess::Impl::Options options) {
  options.device = 0;
  return std::make_unique<GpuGroupAccess::Impl>(world, world, options, [] {
    return GpuGroupAccess::Impl::Tables{&library().table(), kernels()};
  });
}

// Device memory with a copy of host memory.
class Mirror {
 public:
  Mirror(const void* host, std::size_t bytes, GpuStream stream) : bytes_(bytes) {
    if (bytes == 0) return;
    memory_ = gpu::make_memory(device(), bytes);
    gpu::copy(device(), memory_.get(), host, bytes, stream);
  }
  void* get() const { return memory_.get(); }
  void back_to(void* host, GpuStream stream) const {
    if (bytes_ > 0) gpu::copy(device(), host, memory_.get(), bytes_, stream);
  }

 private:
  gpu::DeviceMemory memory_;
  std::size_t bytes_;
};

}  // namespace anello
