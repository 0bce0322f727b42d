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

// Returns a call that blocks until the host may read the result, as a call on host memory does.
template <class Start>
Library::Call OursOnGpu::complete(Start start) {
  return [this, start] {
    start(stream_.get());
    gpus_.synchronize(stream_.get());
  };
}

Library::Call OursOnGpu::collective(Kind kind, ConstTensor input, Tensor output, Op op) {
  require_use(kind, input.dtype, op);
  const ReduceOptions options = reduce_options();
  switch (kind) {
    case Kind::broadcast:
      return complete([=, this](GpuStream stream) { gpus_.broadcast(output, 0, stream); });
    case Kind::reduce:
      return complete([=, this](GpuStream stream) { gpus_.reduce(input, output, 0, stream, op, options); });
    case Kind::allgather:
      return complete([=, this](GpuStream stream) { gpus_.allgather(input, output, stream); });
    case Kind::reduce_scatter:
      return complete([=, this](GpuStream stream) { gpus_.reduce_scatter(input, output, stream, op, options); });
    case Kind::gather:
      return complete([=, this](GpuStream stream) { gpus_.gather(input, output, 0, stream); });
    case Kind::scatter:
      return complete([=, this](GpuStream stream) { gpus_.scatter(input, output, 0, stream); });
    case Kind::alltoall:
      return complete([=, this](GpuStream stream) { gpus_.alltoall(input, output, stream); });
    case Kind::barrier:
      return [this] { world_.barrier(); };
    default:
      return complete([=, this](GpuStream stream) { gpus_.allreduce(input, output, stream, op, options); });
  }
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
