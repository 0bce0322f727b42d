#include "gpu/named_calls_state.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::gpu {

// A rank's operations all use one GPU, because the ranks cannot agree on an order across several GPUs.
Device NamedCalls::State::checked(int number, std::string_view verb) {
  const Device its{&makers.table(), DeviceId(number)};
  const MutexLock lock(mutex);
  if (device && device->id != its.id)
    group::refuse(verb, text("a tensor is on GPU ", number, ", but earlier tensors were on GPU ", int(device->id),
                             "; a rank's named operations use one GPU: copy the tensor there"));
  if (const int count = device ? 0 : device_count(*its.table); !device && (number < 0 || number >= count))
    group::refuse(verb, text("GPU ", number, " was asked for; it must be one of 0 to ", count - 1));
  return its;
}

void NamedCalls::State::choose(const Device& its) {
  const MutexLock lock(mutex);
  if (!device) device = its;
}

Device NamedCalls::State::chosen() {
  const MutexLock lock(mutex);
  return *device;
}

GpuGroup& NamedCalls::State::ready_group() {
  if (no_gpus) throw Error(*no_gpus);
  if (gpus) return *gpus;
  ignore_captures();
  std::optional<int> number;
  {
    const MutexLock lock(mutex);
    if (device) number = int(device->id);
  }
  try {
    gpus.emplace(makers.gpus(number));
  } catch (const Error& error) {
    no_gpus = error;
    throw;
  }
  const Device& its = GpuGroupAccess::impl(*gpus).device();
  {
    const MutexLock lock(mutex);
    device = its;
  }
  ignore_captures();
  stream = make_stream(its, Priority::urgent);
  return *gpus;
}

// Called on a thread of the library. Meanwhile the program may capture one of its own streams, which must not forbid
// this thread's calls.
void NamedCalls::State::ignore_captures() {
  const MutexLock lock(mutex);
  if (device) device->table->ignore_captures();
}

std::byte* NamedCalls::State::neutral_memory(std::size_t bytes) {
  if (bytes > neutral_bytes) {
    neutral_bytes = std::max(bytes, 2 * neutral_bytes);
    neutral.push_back(make_memory(GpuGroupAccess::impl(*gpus).device(), neutral_bytes));
  }
  return neutral.empty() ? nullptr : static_cast<std::byte*>(neutral.back().get());
}

// Calls the callbacks in the order in which the operations have started, because the operations end in that order.
void NamedCalls::State::watch() {
  for (MutexLock lock(mutex);;) {
    changed.wait(lock, [this]() ANELLO_REQUIRES(mutex) { return closed || !watched.empty(); });
    if (watched.empty()) return;
    auto next = std::move(watched.front());
    watched.pop_front();
    lock.unlock();
    next();
    next = nullptr;  // destroyed without the lock, because it may own the operation's last handle
    lock.lock();
  }
}

void NamedCalls::State::close() {
  std::unique_ptr<SerialExecutor<void>> last;
  {
    const MutexLock lock(mutex);
    last = std::move(executor);
  }
  if (!last) return;
  last.reset();
  {
    const MutexLock lock(mutex);
    closed = true;
  }
  changed.notify_all();
  // This is the watcher's thread if a callback destroyed the last handle.
  if (watcher.get_id() == std::this_thread::get_id())
    watcher.detach();
  else
    watcher.join();
  close_gpus();
  GroupAccess::end(ranks, false);
}

// If the GPU does not finish its work in time, the work is aborted together with the communicator. Then the events are
// done, as if the work were complete. So `failure_at_end` is set before the abort. Memory that the device may still use
// is leaked, because freeing it could block for ever.
void NamedCalls::State::close_gpus() {
  const bool finished = finishes();
  {
    const MutexLock lock(mutex);
    settled = true;
    failure_at_end = ranks.failure();
    if (!failure_at_end && !finished)
      failure_at_end = Error(ErrorCode::aborted,
                             "the agenda, or this rank's world, ended before the GPU had done this operation; wait for "
                             "all operations before that");
  }
  gpus.reset();
  if (finished || finishes()) return;
  for (DeviceMemory& memory : neutral) memory.leak();
}

// Returns the world's failure. Once `settled` is true, returns failure_at_end instead.
std::optional<Error> NamedCalls::State::world_failure() {
  const MutexLock lock(mutex);
  return settled ? failure_at_end : ranks.failure();
}

// Waits for the device for a limited time. Returns true if the device has done all operations.
bool NamedCalls::State::finishes() {
  if (!stream) return true;
  try {
    const Device its = chosen();
    const DeviceGuard guard(its);
    const Event done = make_event(its);
    record(its, done, stream.get());
    gpu::wait(its, done, kLastWait, "the last named operations");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace anello::gpu
