// A GPU that the engine uses, and owners of streams, events and memory on this GPU. Owners are move-only. Their
// destructors ignore errors, because the process or the device may be shutting down. Any thread.
#pragma once
#include <anello/gpu.hpp>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include "gpu/table.h"

namespace anello::gpu {

enum class DeviceId : int {};

// A device and the table of the plugin's functions for it. The table must outlive the Device.
struct Device {
  const AnelloGpuTable* table = nullptr;
  DeviceId id{0};
};

// If the status is not 0, throws Error{device} with the call, the device, the stream (unless it is null), and a
// description of the status.
void check(const Device& device, int status, std::string_view call, GpuStream stream = nullptr);

// Makes the device the calling thread's current device. The destructor restores the previous device, unless that device
// has no context yet, because restoring would make a context.
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

template <class Handle, int (*AnelloGpuTable::*kDestroy)(Handle)>
class Owner {
 public:
  Owner() = default;  // owns nothing
  Owner(const Device& device, Handle handle) : device_(device), handle_(handle) {}
  Owner(Owner&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_) (device_.table->*kDestroy)(handle_);
  }
  Handle get() const { return handle_; }
  void leak() { handle_ = nullptr; }  // for handles whose destruction could block for ever; they are never freed
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Device device_;
  Handle handle_ = nullptr;
};

using Stream = Owner<GpuStream, &AnelloGpuTable::stream_destroy>;
using Event = Owner<void*, &AnelloGpuTable::event_destroy>;
using Graph = Owner<void*, &AnelloGpuTable::graph_destroy>;
using DeviceMemory = Owner<void*, &AnelloGpuTable::memory_destroy>;
using PinnedMemory = Owner<void*, &AnelloGpuTable::pinned_destroy>;  // host memory that the device can access directly

// Work on an urgent stream begins before work that waits on normal streams.
enum class Priority { normal, urgent };

// These functions throw Error{device}. For zero bytes, the result is empty.
Stream make_stream(const Device& device, Priority priority = Priority::normal);
Event make_event(const Device& device);
DeviceMemory make_memory(const Device& device, std::size_t bytes);
PinnedMemory make_pinned(const Device& device, std::size_t bytes);

// These functions queue work on a stream, do not block, and throw Error{device}. record(): the event will be done when
// all work that is now on the stream is done. follow(): work that is queued on the stream after this call waits for
// the event. copy(): copies between any two memories; for zero bytes it queues nothing.
void record(const Device& device, const Event& event, GpuStream stream);
void follow(const Device& device, GpuStream stream, const Event& event);
void copy(const Device& device, void* to, const void* from, std::size_t bytes, GpuStream stream);
void zero(const Device& device, void* memory, std::size_t bytes, GpuStream stream);
// Makes work that is queued on `later` after this call wait for all work that is now on `earlier`. Records the event.
void order(const Device& device, const Event& event, GpuStream earlier, GpuStream later);

// After this call, the calls of Group in this process, which read host memory, refuse GPU memory. The check runs on the
// thread of each such call, and may initialize `device` there.
void keep_out_of_host_calls(const Device& device);

// True if work on the stream is being captured into a CUDA graph instead of being run. Throws Error{device}.
bool is_capturing(const Device& device, GpuStream stream);
// Throws Error{unsupported} if the stream is being captured. The world goes on.
void refuse_capture(const Device& device, GpuStream stream, std::string_view what);

// While an object of this class exists, work that this thread queues on the stream is captured into a graph instead of
// being run. The stream must not be null. The graph stores addresses and values. Until the capture ends, the thread
// must not allocate or free memory, and must not wait.
class Capture {
 public:
  Capture(const Device& device, GpuStream stream);  // the constructor and end() throw Error{device}
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Graph end();

 private:
  Device device_;
  GpuStream stream_;  // null once the capture has ended
};
void launch(const Device& device, const Graph& graph, GpuStream stream);

// Call between two checks of an event. `look`: the number of checks so far, from 0. The first pauses only yield,
// because sleeping would make a short copy take longer; but if yields take long, they sleep too. Later pauses sleep.
void pause_between_looks(int look);

// How long a destructor waits for a device. The limit is needed because destructors cannot report a device that hangs.
inline constexpr std::chrono::milliseconds kLastWait{5000};

// Blocks until the event is done. `what` describes the event in errors. Throws Error{device}, and Error{timed_out}
// after `limit`; zero means no limit.
void wait(const Device& device, const Event& event, std::chrono::milliseconds limit, std::string_view what);

}  // namespace anello::gpu
