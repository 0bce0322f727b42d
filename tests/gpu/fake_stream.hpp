// A stream of the fake GPU, which is a thread, and an event on it. For fake_gpu.cpp only.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/table.h"
#include "tests/support/random.hpp"

namespace anello::gpu::fake {

inline std::mutex mutex;                 // guards all variables of the fake that are not thread_local
inline std::condition_variable changed;  // a function has run, or another state has changed
inline Random delays(1);
inline constexpr int kDevices = 4;
inline std::array<int, kDevices> busy{};  // by device: number of functions that are queued or running
inline std::atomic<int> urgent_streams{0};
inline thread_local int current = 0;  // device

struct FakeStream {
  std::deque<std::function<void()>> queued;
  bool running = false, closed = false, capturing = false, urgent = false;
  bool invalid = false;  // a call has invalidated the capture
  std::vector<std::function<void()>> captured;
  int device = current;
  std::condition_variable to_do;  // a function was queued; only the worker waits for this
  std::thread worker{[this] { work(); }};

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      to_do.wait(lock, [&] { return !queued.empty() || closed; });
      if (queued.empty()) return;
      const auto kernel = std::move(queued.front());
      queued.pop_front();
      running = true;
      const std::chrono::microseconds delay(delays.below(200));
      lock.unlock();
      std::this_thread::sleep_for(delay);
      kernel();
      lock.lock();
      running = false;
      busy[std::size_t(device)]--;
      changed.notify_all();
    }
  }
  ~FakeStream() {
    {
      const std::lock_guard lock(mutex);
      closed = true;
    }
    to_do.notify_one();
    worker.join();
    urgent_streams -= urgent ? 1 : 0;
  }
};

inline thread_local FakeStream* own_capture = nullptr;  // by this thread, through the table

FakeStream& stream_of(CUstream_st* stream);
// For a call that CUDA does not allow in a capture: if this thread captures, refuses the call and spoils the capture.
// Does so too for a capture by fake::capture() on the current device, by any thread, unless this thread ignores
// captures.
int refused_by_capture();
int ignore_captures();
int capture_begin(CUstream_st* stream);
int capture_end(CUstream_st* stream, void** graph);
int graph_launch(void* graph, CUstream_st* stream);
int graph_destroy(void* graph);

struct FakeEvent {
  std::uint64_t recorded = 0, done = 0;
  int device = current;
  bool captured = false;  // recorded into a graph: outside of it, it can be neither queried nor waited for
};
using EventOf = std::shared_ptr<FakeEvent>;

}  // namespace anello::gpu::fake
