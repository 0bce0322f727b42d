#include "ring/group/device_memory.hpp"

#include <array>
#include <atomic>
#include <cstdint>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::group {
namespace {

std::atomic<DeviceOf> known{nullptr};

// Blocks of addresses in which host memory was found. GPU memory begins at a multiple of the block size, so a block has
// either only host memory or only GPU memory. Limit: if the host frees a block and a GPU later gets its addresses, the
// GPU's memory is not recognized.
class HostBlocks {
 public:
  bool contains(const void* memory) const { return place_of(memory).load(std::memory_order_relaxed) == block(memory); }
  void add(const void* memory) { place_of(memory).store(block(memory), std::memory_order_relaxed); }
  void forget() {
    for (auto& place : places_) place.store(0, std::memory_order_relaxed);
  }

 private:
  static std::uintptr_t block(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) >> 16; }
  std::atomic<std::uintptr_t>& place_of(const void* memory) const { return places_[block(memory) % places_.size()]; }
  mutable std::array<std::atomic<std::uintptr_t>, 4096> places_{};
};
HostBlocks host_blocks;

void require(const Call& call, DeviceOf device_of, const void* memory) {
  if (!memory || host_blocks.contains(memory)) return;
  if (const int device = device_of(memory); device >= 0)
    refuse(name(call.kind),
           text("a tensor is in the memory of GPU ", device, "; a Group takes host memory, a GpuGroup takes both"));
  host_blocks.add(memory);
}

}  // namespace

void tell_devices_by(DeviceOf device_of) {
  host_blocks.forget();
  known.store(device_of, std::memory_order_release);
}

void require_host_memory(const Call& call) {
  // Acquire order makes the data that `device_of` reads visible to this thread.
  const DeviceOf device_of = known.load(std::memory_order_acquire);
  if (!device_of) return;
  for (const run::Buffer* buffer : {&call.input, &call.output}) {
    for (const run::Buffer::Piece& piece : buffer->list()) require(call, device_of, piece.data);
    if (buffer->list().empty()) require(call, device_of, buffer->run(0, 1, 0).data());
  }
}

}  // namespace anello::group
