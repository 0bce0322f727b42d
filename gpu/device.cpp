#include "gpu/device.hpp"

#include <anello/error.hpp>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "ring/base/text.hpp"
#include "ring/group/device_memory.hpp"
#include "ring/link/core.hpp"

namespace anello::gpu {
namespace {

template <class Owned>
Owned make(const Device& device, int (*create)(void**, std::size_t), std::size_t bytes, std::string_view what) {
  if (bytes == 0) return {};
  const DeviceGuard guard(device);
  void* handle = nullptr;
  check(device, create(&handle, bytes), text("allocating ", bytes, " bytes of ", what));
  return {device, handle};
}

}  // namespace

void check(const Device& device, int status, std::string_view call, const GpuStream stream) {
  if (status == 0) return;
  const std::string where = stream ? text(", stream ", stream) : "";
  throw Error(ErrorCode::device, text("GPU ", int(device.id), where, ": ", call, ": ", device.table->describe(status)));
}

DeviceGuard::DeviceGuard(const Device& device) : device_(device) {
  check(device, device.table->get_device(&before_), "asking for the current device");
  if (before_ != int(device.id))
    check(device, device.table->set_device(int(device.id)), "making it the current device");
}

DeviceGuard::~DeviceGuard() {
  if (before_ != int(device_.id)) device_.table->return_to_device(before_);
}

Stream make_stream(const Device& device, Priority priority) {
  const DeviceGuard guard(device);
  GpuStream stream = nullptr;
  check(device, device.table->stream_create(&stream, priority == Priority::urgent ? 1 : 0), "making a stream");
  return {device, stream};
}
Event make_event(const Device& device) {
  const DeviceGuard guard(device);
  void* event = nullptr;
  check(device, device.table->event_create(&event), "making an event");
  return {device, event};
}
DeviceMemory make_memory(const Device& device, std::size_t bytes) {
  return make<DeviceMemory>(device, device.table->memory_create, bytes, "its memory");
}
PinnedMemory make_pinned(const Device& device, std::size_t bytes) {
  return make<PinnedMemory>(device, device.table->pinned_create, bytes, "pinned host memory");
}

void record(const Device& device, const Event& event, GpuStream stream) {
  check(device, device.table->event_record(event.get(), stream), "recording an event", stream);
}
void follow(const Device& device, GpuStream stream, const Event& event) {
  check(device, device.table->stream_wait(stream, event.get()), "waiting for an event", stream);
}
void copy(const Device& device, void* to, const void* from, std::size_t bytes, GpuStream stream) {
  if (bytes > 0) check(device, device.table->copy(to, from, bytes, stream), "copying", stream);
}
void zero(const Device& device, void* memory, std::size_t bytes, GpuStream stream) {
  if (bytes > 0) check(device, device.table->zero(memory, bytes, stream), "setting to zero", stream);
}
void order(const Device& device, const Event& event, GpuStream earlier, GpuStream later) {
  record(device, event, earlier);
  follow(device, later, event);
}

bool is_capturing(const Device& device, GpuStream stream) {
  int capturing = 0;
  check(device, device.table->is_capturing(stream, &capturing), "asking whether the stream is captured", stream);
  return capturing != 0;
}

void refuse_capture(const Device& device, GpuStream stream, std::string_view what) {
  if (is_capturing(device, stream))
    throw Error(ErrorCode::unsupported, text("GPU ", int(device.id), ", stream ", stream, ": ", what,
                                             " cannot be captured into a CUDA graph; call it outside the capture"));
}

Capture::Capture(const Device& device, GpuStream stream) : device_(device), stream_(stream) {
  check(device, device.table->capture_begin(stream), "beginning a capture", stream);
}
Capture::~Capture() {
  void* graph = nullptr;
  if (stream_ && device_.table->capture_end(stream_, &graph) == 0) device_.table->graph_destroy(graph);
}
Graph Capture::end() {
  void* graph = nullptr;
  const GpuStream stream = std::exchange(stream_, nullptr);
  check(device_, device_.table->capture_end(stream, &graph), "making a graph of the captured work", stream);
  return {device_, graph};
}

void launch(const Device& device, const Graph& graph, GpuStream stream) {
  check(device, device.table->graph_launch(graph.get(), stream), "launching a graph", stream);
}

void keep_out_of_host_calls(const Device& device) {
  static std::atomic<const AnelloGpuTable*> table;
  static std::atomic<int> id;
  id = int(device.id);
  table = device.table;
  group::tell_devices_by([](const void* memory) {
    const Device own{table, DeviceId(id.load())};
    const DeviceGuard guard(own);
    int owner = -1;
    check(own, own.table->device_of(memory, &owner), "asking where a tensor is");
    return owner;
  });
}

void pause_between_looks(int look) {
  constexpr int kEagerLooks = 200;
  constexpr std::chrono::microseconds kNap{20};
  thread_local link::YieldBudget budget(std::chrono::milliseconds(1));
  if (look >= kEagerLooks || !budget.allows_a_yield()) return std::this_thread::sleep_for(kNap);
  const std::chrono::nanoseconds took = budget.yield();
  if (budget.is_long(took)) budget.found_after(took);  // perhaps the GPU has done its work meanwhile
}

void wait(const Device& device, const Event& event, std::chrono::milliseconds limit, std::string_view what) {
  const auto began = std::chrono::steady_clock::now();
  for (int look = 0;; look++) {
    const int status = device.table->event_query(event.get());
    if (status != ANELLO_GPU_NOT_READY) return check(device, status, what);
    if (limit.count() > 0 && std::chrono::steady_clock::now() - began >= limit)
      throw Error(ErrorCode::timed_out,
                  text("GPU ", int(device.id), ": ", what, " took more than ", limit.count(), " ms"));
    pause_between_looks(look);
  }
}

}  // namespace anello::gpu
