// Captures and graphs of the fake GPU, with the statuses of CUDA's calls. Stricter than CUDA: other streams cannot join
// a capture, and a graph can be launched only outside of captures.
#include "tests/gpu/fake_gpu.hpp"
#include "tests/gpu/fake_stream.hpp"

namespace anello::gpu::fake {
namespace {

constexpr int kOtherDevice = 400, kIllegalState = 401, kUnsupported = 900, kInvalidated = 901, kWrongThread = 908;

using Work = std::vector<std::function<void()>>;
struct FakeGraph {
  int device = 0;
  std::shared_ptr<const Work> work;  // also the work that is being run
};
std::atomic<int> graphs{0}, captured_graphs{0}, launched_graphs{0};
std::array<FakeStream*, kDevices> captured{};  // the streams that capture() captures, at most one of each device
thread_local bool ignores_captures = false;

Work end_of_capture(FakeStream& stream) {
  stream.capturing = stream.invalid = false;
  return std::exchange(stream.captured, {});
}

}  // namespace

int refused_by_capture() {
  const std::lock_guard lock(mutex);
  FakeStream* const spoilt = own_capture ? own_capture : ignores_captures ? nullptr : captured[std::size_t(current)];
  if (!spoilt) return 0;
  spoilt->invalid = true;
  return kUnsupported;
}

int ignore_captures() {
  ignores_captures = true;
  return 0;
}

// The default stream cannot be captured.
int capture_begin(GpuStream stream) {
  if (!stream) return kUnsupported;
  FakeStream& of = stream_of(stream);
  const std::lock_guard lock(mutex);
  if (own_capture || of.capturing) return kIllegalState;
  of.capturing = true;
  of.invalid = false;
  own_capture = &of;
  return 0;
}

int capture_end(GpuStream stream, void** graph) {
  *graph = nullptr;
  FakeStream& of = stream_of(stream);
  const std::lock_guard lock(mutex);
  if (!of.capturing) return kIllegalState;
  if (own_capture != &of) return kWrongThread;
  own_capture = nullptr;
  const bool invalid = of.invalid;
  Work work = end_of_capture(of);
  if (invalid) return kInvalidated;
  *graph = new FakeGraph{of.device, std::make_shared<const Work>(std::move(work))};
  graphs++;
  captured_graphs++;
  return 0;
}

int graph_launch(void* graph, GpuStream stream) {
  const FakeGraph& of = *static_cast<FakeGraph*>(graph);
  if (stream_of(stream).device != of.device) return kOtherDevice;
  {
    const std::lock_guard lock(mutex);
    if (stream_of(stream).capturing) return kUnsupported;
  }
  launched_graphs++;
  queue(stream, [work = of.work] {
    for (const auto& each : *work) each();
  });
  return 0;
}

int graph_destroy(void* graph) {
  delete static_cast<FakeGraph*>(graph);
  graphs--;
  return 0;
}

int graphs_alive() {
  return graphs;
}
int graphs_captured() {
  return captured_graphs;
}
int graphs_launched() {
  return launched_graphs;
}

void capture(GpuStream stream) {
  FakeStream& of = stream_of(stream);
  const std::lock_guard lock(mutex);
  of.capturing = true;
  of.invalid = false;
  captured[std::size_t(of.device)] = &of;
}

void replay(GpuStream stream) {
  FakeStream& of = stream_of(stream);
  Work graph;
  {
    const std::lock_guard lock(mutex);
    captured[std::size_t(of.device)] = nullptr;
    const bool invalid = of.invalid;
    graph = end_of_capture(of);
    if (invalid) return;
  }
  for (auto& kernel : graph) queue(stream, std::move(kernel));
}

// A null stream is the default one of the current device.
FakeStream& stream_of(GpuStream stream) {
  static struct Defaults {
    std::array<FakeStream, kDevices> of_device;
    Defaults() {
      for (int id = 0; id < kDevices; id++) of_device[std::size_t(id)].device = id;
    }
  } defaults;
  return stream ? *reinterpret_cast<FakeStream*>(stream) : defaults.of_device[std::size_t(current)];
}

}  // namespace anello::gpu::fake
