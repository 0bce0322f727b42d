#include "tests/gpu/fake_gpu.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/gpu/fake_nccl.hpp"
#include "tests/gpu/fake_stream.hpp"
#include "tests/gpu/injected_failure.hpp"

namespace anello::gpu::fake {
namespace {

constexpr int kInvalid = 1, kNoSuchDevice = 101, kOtherDevice = 400, kBroken = 700, kInvalidated = 901, kCaptured = 905;
constexpr std::size_t kBlock = 64 << 10;  // of device memory

std::map<const std::byte*, std::pair<std::size_t, int>> memories;  // of devices: bytes, device
std::set<std::byte*> pinned;
std::set<int> contexts;  // devices that have one
bool hanging = false, corrupted = false;
std::atomic<int> living{0};
std::function<void(const void*)> before_each_copy;
std::size_t room = SIZE_MAX;  // bytes of each device

thread_local int pretended = -1, instance = 0;
thread_local InjectedFailure injected;

// Every call that works on the current device makes a context on it, like CUDA's runtime.
int status_of(const char* call) {
  {
    const std::lock_guard lock(mutex);
    contexts.insert(current);
  }
  return injected.comes(call) ? kBroken : 0;
}

void push(GpuStream stream, std::function<void()> kernel) {
  FakeStream& to = stream_of(stream);
  const std::lock_guard lock(mutex);
  if (hanging) return;
  if (to.capturing) return to.captured.push_back(std::move(kernel));
  to.queued.push_back(std::move(kernel));
  busy[std::size_t(to.device)]++;
  to.to_do.notify_one();
}

template <class T>
int create(const char* call, void** handle) {
  if (const int status = status_of(call)) return status;
  *handle = new T;
  living++;
  return 0;
}

template <class T>
int destroy(void* handle) {
  delete static_cast<T*>(handle);
  living--;
  return 0;
}

const char* describe(int status) {
  if (status == kOtherDevice) return "invalid resource handle: of another device";
  if (status == kCaptured) return "not permitted while a stream is captured";
  if (status == 900) return "operation not permitted when stream is capturing";
  if (status == kInvalidated) return "operation failed due to a previous error during capture";
  if (status == kInvalid) return "invalid argument";
  return status == kNoSuchDevice ? "no such device" : "the fake is broken";
}

int versions(int* driver, int* runtime) {
  *driver = *runtime = 13000;
  return 0;
}

int device_count(int* count) {
  *count = kDevices;
  return injected.comes("device_count") ? kBroken : 0;  // needs no context
}

int device_info(int device, AnelloGpuInfo* info) {
  if (device < 0 || device >= kDevices) return kNoSuchDevice;
  *info = {};
  std::snprintf(info->name, sizeof info->name, "fake");
  std::snprintf(info->uuid, sizeof info->uuid, "fake %d.%d", device, instance);
  std::snprintf(info->bus_id, sizeof info->bus_id, "fake:%d", device);
  return 0;
}

int device_of(const void* memory, int* device) {
  if (const int status = status_of("device_of")) return status;
  const std::lock_guard lock(mutex);
  *device = pretended;
  const auto after = memories.upper_bound(static_cast<const std::byte*>(memory));
  if (after == memories.begin()) return 0;
  const auto& [begin, owner] = *std::prev(after);
  if (static_cast<const std::byte*>(memory) < begin + owner.first) *device = owner.second;
  return 0;
}

int get_device(int* device) {
  *device = current;
  return 0;
}

int set_device(int device) {
  if (device < 0 || device >= kDevices) return kNoSuchDevice;
  current = device;
  return status_of("set_device");
}

int return_to_device(int device) {
  {
    const std::lock_guard lock(mutex);
    if (!contexts.contains(device)) return 0;
  }
  return set_device(device);
}

int stream_create(GpuStream* stream, int urgent) {
  const int status = create<FakeStream>("stream_create", reinterpret_cast<void**>(stream));
  if (status != 0 || urgent == 0) return status;
  reinterpret_cast<FakeStream*>(*stream)->urgent = true;
  urgent_streams++;
  return 0;
}

// Allocates separate blocks, so that no other memory is in them, as on a device.
int memory_create(void** memory, std::size_t bytes) {
  if (const int status = refused_by_capture()) return status;
  if (const int status = status_of("memory_create")) return status;
  if (bytes == 0) return kInvalid;
  const std::lock_guard lock(mutex);
  std::size_t taken = bytes;
  for (const auto& [begin, about] : memories) taken += about.second == current ? about.first : 0;
  if (taken > room) return kBroken;
  *memory = std::aligned_alloc(kBlock, (bytes + kBlock - 1) / kBlock * kBlock);
  living++;
  memories[static_cast<std::byte*>(*memory)] = {bytes, current};
  return 0;
}

// Memory of a device is freed when all work queued on that device is done.
int memory_destroy(void* memory) {
  if (const int status = refused_by_capture()) return status;
  if (injected.comes("memory_destroy")) return kBroken;
  {
    std::unique_lock lock(mutex);
    if (const auto found = memories.find(static_cast<std::byte*>(memory)); found != memories.end()) {
      const auto device = std::size_t(found->second.second);
      changed.wait(lock, [&] { return busy[device] == 0 || hanging; });
      memories.erase(static_cast<std::byte*>(memory));
    }
    pinned.erase(static_cast<std::byte*>(memory));
  }
  std::free(memory);
  living--;
  return 0;
}

int pinned_create(void** memory, std::size_t bytes) {
  if (const int status = refused_by_capture()) return status;
  if (const int status = status_of("pinned_create")) return status;
  if (bytes == 0) return kInvalid;
  *memory = std::malloc(bytes);
  living++;
  const std::lock_guard lock(mutex);
  pinned.insert(static_cast<std::byte*>(*memory));
  return 0;
}

int copy(void* to, const void* from, std::size_t bytes, GpuStream stream) {
  if (const int status = status_of("copy")) return status;
  if (bytes == 0) return kInvalid;
  std::function<void(const void*)> before;
  {
    const std::lock_guard lock(mutex);
    before = before_each_copy;
  }
  push(stream, [=] {
    if (before) before(to);
    std::memcpy(to, from, bytes);
  });
  return 0;
}

int zero(void* memory, std::size_t bytes, GpuStream stream) {
  if (const int status = status_of("zero")) return status;
  if (bytes == 0) return kInvalid;
  if (!may_launch(stream)) return kOtherDevice;
  push(stream, [=] { std::memset(memory, 0, bytes); });
  return 0;
}

int event_record(void* event, GpuStream stream) {
  if (const int status = status_of("event_record")) return status;
  const EventOf of = *static_cast<EventOf*>(event);
  if (stream_of(stream).device != of->device) return kOtherDevice;
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(mutex);
    of->captured = stream_of(stream).capturing;
    mark = ++of->recorded;
  }
  push(stream, [of, mark] {
    const std::lock_guard lock(mutex);
    of->done = std::max(of->done, mark);
  });
  return 0;
}

int stream_wait(GpuStream stream, void* event) {
  if (const int status = status_of("stream_wait")) return status;
  const EventOf of = *static_cast<EventOf*>(event);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(mutex);
    if (of->captured != stream_of(stream).capturing) {
      (own_capture && of->captured ? *own_capture : stream_of(stream)).invalid = true;
      return kCaptured;
    }
    mark = of->recorded;
  }
  push(stream, [of, mark] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return of->done >= mark || hanging; });
  });
  return 0;
}

int event_query(void* event) {
  if (const int status = refused_by_capture()) return status;
  if (const int status = status_of("event_query")) return status;
  const EventOf of = *static_cast<EventOf*>(event);
  const std::lock_guard lock(mutex);
  if (of->captured) return kCaptured;
  if (corrupted) return kBroken;
  return of->done >= of->recorded ? 0 : ANELLO_GPU_NOT_READY;
}

}  // namespace

const AnelloGpuTable& table() {
  static const AnelloGpuTable all = {
      .version = ANELLO_GPU_TABLE_VERSION,
      .describe = describe,
      .versions = versions,
      .device_count = device_count,
      .device_info = device_info,
      .device_of = device_of,
      .get_device = get_device,
      .set_device = set_device,
      .return_to_device = return_to_device,
      .memory_create = memory_create,
      .memory_destroy = memory_destroy,
      .pinned_create = pinned_create,
      .pinned_destroy = memory_destroy,
      .copy = copy,
      .zero = zero,
      .stream_create = stream_create,
      .stream_destroy = [](GpuStream stream) { return destroy<FakeStream>(stream); },
      .stream_wait = stream_wait,
      .is_capturing =
          [](GpuStream stream, int* capturing) {
            const std::lock_guard lock(mutex);
            return *capturing = stream_of(stream).capturing ? 1 : 0, 0;
          },
      .ignore_captures = ignore_captures,
      .event_create =
          [](void** event) {
            auto fresh = std::make_shared<FakeEvent>();  // made first, so that a failure leaves nothing behind
            const int status = create<EventOf>("event_create", event);
            if (status == 0) *static_cast<EventOf*>(*event) = std::move(fresh);
            return status;
          },
      .event_destroy = destroy<EventOf>,
      .event_record = event_record,
      .event_query = event_query,
      .capture_begin = capture_begin,
      .capture_end = capture_end,
      .graph_launch = graph_launch,
      .graph_destroy = graph_destroy,
      .nccl = find_nccl,
  };
  return all;
}

Device device(int id) {
  return {&table(), DeviceId(id)};
}

void queue(GpuStream stream, std::function<void()> kernel) {
  push(stream, std::move(kernel));
}

void finish(GpuStream stream) {
  FakeStream& of = stream_of(stream);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return of.queued.empty() && !of.running; });
}

bool may_launch(GpuStream stream) {
  return stream_of(stream).device == current;
}

std::set<int> devices_with_context() {
  const std::lock_guard lock(mutex);
  return contexts;
}
void forget_contexts() {
  const std::lock_guard lock(mutex);
  contexts.clear();
}

void wait_for_all() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [] { return busy == std::array<int, kDevices>{}; });
}

void pretend(int device) {
  pretended = device;
}

void pretend_instance(int number) {
  instance = number;
}

int alive() {
  return living + graphs_alive();
}
int urgent() {
  return urgent_streams;
}

void before_copies(std::function<void(const void* to)> call) {
  const std::lock_guard lock(mutex);
  before_each_copy = std::move(call);
}

int reclaim() {
  const std::lock_guard lock(mutex);
  const int count = int(pinned.size() + memories.size());
  for (std::byte* memory : pinned) std::free(memory);
  for (const auto& [memory, about] : memories) std::free(const_cast<std::byte*>(memory));
  pinned.clear();
  memories.clear();
  living -= count;
  return count;
}

void fail(const std::string& call, int after) {
  injected = {call, after};
}

void limit_memory(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  room = bytes;
}

void hang() {
  const std::lock_guard lock(mutex);
  hanging = true;
  changed.notify_all();
}

void corrupt() {
  const std::lock_guard lock(mutex);
  corrupted = true;
}

void recover() {
  injected = {};
  const std::lock_guard lock(mutex);
  hanging = corrupted = false;
  room = SIZE_MAX;
}

}  // namespace anello::gpu::fake
