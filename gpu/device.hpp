// A GPU as the engine sees it, and the owners of what is made on it: move-only, and silent when they let go, since that
// may be while the process or the device shuts down. Any thread.
#pragma once
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include "gpu/table.h"

namespace anello::gpu {

enum class DeviceId : int {};

// A view: the table outlives it.
struct Device {
  const AnelloGpuTable* table = nullptr;
  DeviceId id{0};
};

// Throws Error{device} with the call, the device, the stream if there is one, and the status in words; nothing if it is
// 0.
void check(const Device& device, int status, std::string_view call, const void* stream = nullptr);

// Makes the device the calling thread's current one, and the one before it again at the end, if anything is on that.
class DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  Device device_;
  int before_ = 0;
};

using Destroy = int (*AnelloGpuTable::*)(void*);

template <Destroy kDestroy>
class Owner {
 public:
  Owner() = default;  // of nothing
  Owner(const Device& device, void* handle) : device_(device), handle_(handle) {}
  Owner(Owner&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_) (device_.table->*kDestroy)(handle_);
  }
  void* get() const { return handle_; }
  void leak() { handle_ = nullptr; }  // where to let go would wait for ever
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Device device_;
  void* handle_ = nullptr;
};

using Stream = Owner<&AnelloGpuTable::stream_destroy>;
using Event = Owner<&AnelloGpuTable::event_destroy>;
using DeviceMemory = Owner<&AnelloGpuTable::memory_destroy>;
using PinnedMemory = Owner<&AnelloGpuTable::pinned_destroy>;  // of the host, where copies find it by themselves

// Throw Error{device}.
Stream make_stream(const Device& device);
Event make_event(const Device& device);
DeviceMemory make_memory(const Device& device, std::size_t bytes);
PinnedMemory make_pinned(const Device& device, std::size_t bytes);

// Queue on a stream; throw Error{device}. The event stands for all that is on the stream so far; what comes later on a
// stream that follows it waits for that. Copies go between any two memories.
void record(const Device& device, const Event& event, void* stream);
void follow(const Device& device, void* stream, const Event& event);
void copy(const Device& device, void* to, const void* from, std::size_t bytes, void* stream);
void zero(const Device& device, void* memory, std::size_t bytes, void* stream);
// What is queued on `later` from now on follows what has been queued on `earlier`; the event is used for it.
void order(const Device& device, const Event& event, void* earlier, void* later);

// The longest that is waited for a device where nobody can be told that it does not answer.
inline constexpr std::chrono::milliseconds kLastWait{5000};

// Blocks until what was recorded is done. Throws Error{timed_out} after `limit`, if it is not zero, naming `what`.
void wait(const Device& device, const Event& event, std::chrono::milliseconds limit, std::string_view what);

}  // namespace anello::gpu
