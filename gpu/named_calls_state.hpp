// The state that the GPU operations of one agenda share: the GPU and its stream, the thread that starts operations, and
// the thread that waits for operations that have a callback.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu/gpu_group.hpp"
#include "gpu/named_calls.hpp"
#include "gpu/serial_executor.hpp"
#include "ring/base/mutex.hpp"

namespace anello::gpu {

struct NamedCalls::State {
  State(Group its_ranks, Makers its_makers) : ranks(std::move(its_ranks)), makers(std::move(its_makers)) {}

  Device checked(int number, std::string_view verb);
  void choose(const Device& its);
  Device chosen();  // call this only after a device has been chosen
  GpuGroup& ready_group();
  std::byte* neutral_memory(std::size_t bytes);
  std::optional<Error> world_failure();
  void ignore_captures();
  void watch();
  void close();
  void close_gpus();
  bool finishes();

  Group ranks;
  const Makers makers;
  Mutex mutex;
  std::condition_variable changed;
  std::optional<Device> device ANELLO_GUARDED_BY(mutex);
  std::unique_ptr<SerialExecutor<void>> executor ANELLO_GUARDED_BY(mutex) =
      std::make_unique<SerialExecutor<void>>();  // null while the state is being closed
  // Each of these functions waits for an operation and then calls its callback.
  std::deque<std::function<void()>> watched ANELLO_GUARDED_BY(mutex);
  std::thread watcher;                           // runs the functions in `watched`
  bool closed ANELLO_GUARDED_BY(mutex) = false;  // no operation will be started or watched any more
  // True when all operations have ended. If failure_at_end is set, it is the error of the operations that were not done
  // at that time.
  bool settled ANELLO_GUARDED_BY(mutex) = false;
  std::optional<Error> failure_at_end ANELLO_GUARDED_BY(mutex);

  // Used by the executor's thread, and by close() after that thread has ended.
  std::optional<GpuGroup> gpus;
  std::optional<Error> no_gpus;  // why the GpuGroup could not be made; equal on all ranks
  Stream stream;
  // Memory of neutral tensors; kept, because freeing memory waits for all of the device's work.
  std::vector<DeviceMemory> neutral;
  std::size_t neutral_bytes = 0;  // size of the newest entry of `neutral`
};

}  // namespace anello::gpu
