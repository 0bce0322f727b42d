// Memory that is registered with NCCL.
#include <anello/error.hpp>
#include <anello/gpu.hpp>
#include <tuple>

#include "gpu/gpu_group.hpp"
#include "gpu/plugin_loader.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello {

namespace {

using End = GpuGroupAccess::Impl::End;

void end_or_log(const End& end) {
  try {
    end();
  } catch (const std::exception& error) {
    log(Severity::info, text("memory of a GPU could not be freed: ", error.what()));
  }
}

}  // namespace

// This object is constructed before the memory is allocated, and filled afterwards, so that nothing can throw between
// the allocation and the filling.
struct GpuMemory::Impl {
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (end) end_or_log(end);
  }
  void* data = nullptr;
  std::size_t bytes = 0;
  End end;
};

GpuMemory::GpuMemory() = default;
GpuMemory::GpuMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GpuMemory::GpuMemory(GpuMemory&&) noexcept = default;
GpuMemory& GpuMemory::operator=(GpuMemory&&) noexcept = default;
GpuMemory::~GpuMemory() = default;
void* GpuMemory::data() const {
  return impl_ ? impl_->data : nullptr;
}
std::size_t GpuMemory::bytes() const {
  return impl_ ? impl_->bytes : 0;
}

gpu::NcclCommunicator& GpuGroup::Impl::registering() {
  if (!nccl_)
    throw Error(ErrorCode::unsupported,
                text("memory can be registered with NCCL only, and this group is ", backend(), ": ", reason_));
  gpu::NcclCommunicator& communicator = nccl_->communicator();
  if (communicator.table().register_memory) return communicator;
  int version = 0;
  communicator.table().version(&version);
  throw Error(ErrorCode::unsupported,
              text("NCCL ", gpu::nccl_version_text(version), " cannot register memory; 2.19 or newer is needed"));
}

GpuGroup::Impl::End GpuGroup::Impl::register_memory(void* memory, std::size_t bytes) {
  if (!memory || bytes == 0) group::refuse("register_memory", "the memory is null or has 0 bytes");
  const gpu::DeviceGuard guard(device_);
  if (in_host_memory("register_memory", std::vector<ConstTensor>{{memory, bytes, DType::u8}}))
    group::refuse("register_memory", "the memory is in host memory, not on a GPU");
  if (alone_) return [] {};
  return registering().register_memory(memory, bytes);
}

std::pair<void*, GpuGroup::Impl::End> GpuGroup::Impl::allocate(std::size_t bytes) {
  if (bytes == 0) group::refuse("allocate", "the size must be more than 0 bytes");
  if (alone_) {
    auto memory = std::make_shared<gpu::DeviceMemory>(gpu::make_memory(device_, bytes));
    return {memory->get(), [memory] {}};
  }
  const gpu::DeviceGuard guard(device_);
  gpu::NcclCommunicator& communicator = registering();
  const AnelloNcclTable& nccl = communicator.table();
  struct Made {
    void* memory = nullptr;
    End deregister;
  };
  const auto made = std::make_shared<Made>();
  End end = [made, &nccl, device = device_] {
    if (made->deregister) made->deregister();
    const gpu::DeviceGuard its(device);
    if (const int status = nccl.memory_destroy(made->memory); status != 0)
      throw Error(ErrorCode::device,
                  text("GPU ", int(device.id), ": NCCL could not free memory: ", nccl.describe(status)));
  };
  if (const int status = nccl.memory_create(&made->memory, bytes); status != 0)
    throw Error(ErrorCode::device,
                text("GPU ", int(device_.id), ": NCCL could not allocate ", bytes, " bytes: ", nccl.describe(status)));
  try {
    made->deregister = communicator.register_memory(made->memory, bytes);
  } catch (...) {
    end_or_log(end);
    throw;
  }
  return {made->memory, std::move(end)};
}

GpuMemory GpuGroup::allocate(std::size_t bytes) {
  auto made = std::make_unique<GpuMemory::Impl>();
  std::tie(made->data, made->end) = impl_->allocate(bytes);
  made->bytes = bytes;
  return GpuMemory(std::move(made));
}

GpuMemory GpuGroup::register_memory(void* memory, std::size_t bytes) {
  auto made = std::make_unique<GpuMemory::Impl>();
  made->end = impl_->register_memory(memory, bytes);
  made->data = memory;
  made->bytes = bytes;
  return GpuMemory(std::move(made));
}

}  // namespace anello
