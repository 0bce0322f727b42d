#include "ring/group/device_memory.hpp"

#include <atomic>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::group {
namespace {

std::atomic<DeviceOf> known{nullptr};

void require(const Operation& operation, DeviceOf device_of, const void* memory) {
  if (!memory) return;
  if (const int device = device_of(memory); device >= 0)
    refuse(name(operation.kind),
           text("a tensor is in the memory of GPU ", device, "; a Group takes host memory, a GpuGroup takes both"));
}

}  // namespace

void tell_devices_by(DeviceOf device_of) {
  known.store(device_of, std::memory_order_release);
}

void require_host_memory(const Operation& operation) {
  const DeviceOf device_of = known.load(std::memory_order_acquire);  // with what the function reads
  if (!device_of) return;
  for (const run::Buffer* buffer : {&operation.input, &operation.output}) {
    for (const run::Buffer::Piece& piece : buffer->list()) require(operation, device_of, piece.data);
    if (buffer->list().empty()) require(operation, device_of, buffer->run(0, 1, 0).data());
  }
}

}  // namespace anello::group
