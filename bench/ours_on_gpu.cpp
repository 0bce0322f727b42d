#include "bench/ours_on_gpu.hpp"

#include <memory>
#include <nlohmann/json.hpp>

#include "gpu/plugin_loader.hpp"

namespace anello::bench {

OursOnGpu::OursOnGpu(World& world, const Settings& settings, const OurOptions& options)
    : Ours(world, settings, options),
      gpus_(world),
      device_{&gpu::installed(settings.gpu_plugin).table(), gpu::DeviceId(gpus_.device())},
      stream_(gpu::make_stream(device_)) {}

nlohmann::ordered_json OursOnGpu::facts() const {
  nlohmann::ordered_json all = Ours::facts();
  AnelloGpuInfo info{};
  gpu::check(device_, device_.table->device_info(int(device_.id), &info), "asking for its properties");
  all["device"] = info.name;
  all["backend"] = gpus_.backend();
  all["backend_because"] = gpus_.reason();
  return all;
}

// Returns when the host may read the result, like a blocking call.
Library::Call OursOnGpu::allreduce(ConstTensor input, Tensor output, Op op) {
  return [this, input, output, op, options = ReduceOptions{.wire = options_.wire}] {
    gpus_.allreduce(input, output, stream_.get(), op, options);
    gpus_.synchronize(stream_.get());
  };
}

Memory OursOnGpu::allocate(std::size_t bytes) {
  const auto owned = std::make_shared<gpu::DeviceMemory>(gpu::make_memory(device_, bytes));
  return {static_cast<std::byte*>(owned->get()), [owned](std::byte*) {}};
}

void OursOnGpu::copy(void* to, const void* from, std::size_t bytes) {
  const gpu::DeviceGuard guard(device_);
  gpu::copy(device_, to, from, bytes, stream_.get());
  gpus_.synchronize(stream_.get());
}

}  // namespace anello::bench
