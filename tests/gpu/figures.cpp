// Prints figures of a GPU, one a line: "name value unit, of what". Started by tests/gpu.sh on a machine with a GPU.
#include <algorithm>
#include <anello/gpu.hpp>
#include <anello/testing.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "gpu/gpu_group.hpp"
#include "gpu/plugin_loader.hpp"
#include "tests/gpu/verbs.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace {

using namespace anello;
using trainer::Backend;

constexpr int kRounds = 9;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

const gpu::DevicePlugin& library() {
  return gpu::installed(Settings::from_environment().gpu_plugin);
}
gpu::Device device() {
  return {&library().table(), gpu::DeviceId{0}};
}

// The time of one of `repeats` calls that are queued one after another: the median of all rounds except the first.
double queued_us(GpuStream stream, int repeats, const std::function<void()>& queue) {
  const gpu::DeviceGuard guard(device());
  const gpu::Event done = gpu::make_event(device());
  std::vector<double> times;
  for (int round = 0; round <= kRounds; round++) {
    const double began = now_us();
    for (int i = 0; i < repeats; i++) queue();
    gpu::record(device(), done, stream);
    gpu::wait(device(), done, std::chrono::milliseconds(0), "the figures");
    if (round > 0) times.push_back((now_us() - began) / repeats);
  }
  return median(times);
}

// Measures all kernels that read memory once, in comparison with a copy in the same run.
void kernels(std::size_t elems) {
  trainer::CudaBackend on(device(), gpu::installed_kernels(Settings::from_environment().gpu_plugin));
  std::vector<Backend::Memory> memory;
  for (int i = 0; i < 4; i++) memory.push_back(on.allocate(elems));
  const auto span = [&](int i) { return std::span<float>(memory[std::size_t(i)].get(), elems); };
  const auto matrix = [&](int i) { return trainer::Matrix{memory[std::size_t(i)].get(), 1, elems}; };
  const auto gigabytes = [&](double passes, const std::function<void()>& queue) {
    return passes * double(elems * sizeof(float)) / queued_us(on.stream(), 20, queue) / 1e3;
  };
  const double copied =
      gigabytes(2, [&] { gpu::copy(device(), span(0).data(), span(1).data(), elems * sizeof(float), on.stream()); });
  std::printf("copy             %8.0f GB/s   device to device, %zu MiB\n", copied, elems * sizeof(float) >> 20);
  const auto say = [&](const char* name, double passes, const std::function<void()>& queue) {
    const double reached = gigabytes(passes, queue);
    std::printf("%-16s %8.0f GB/s   %.0f %% of the copy\n", name, reached, 100 * reached / copied);
  };
  say("relu", 2, [&] { on.relu(matrix(0), matrix(1)); });
  say("relu_gradient", 3, [&] { on.relu_gradient(matrix(0), matrix(1), matrix(2)); });
  say("add", 3, [&] { on.add(span(0), span(1)); });
  say("scale", 2, [&] { on.scale(1.0F, span(0)); });
  say("momentum_step", 5, [&] { on.momentum_step(span(0), span(1), span(2), 1e-9F, 0.5F); });
  say("adam_step", 7, [&] { on.adam_step(span(0), span(1), span(2), span(3), {1e-9F, 0.9F, 0.999F, 1e-6F}); });
  constexpr std::size_t kColumns = 1024;
  const trainer::Matrix rows{memory[0].get(), elems / kColumns, kColumns};
  say("add_to_rows", 2, [&] { on.add_to_rows(span(1).first(kColumns), rows); });
  say("sum_rows", 1, [&] { on.sum_rows(rows, span(1).first(kColumns)); });
  const AnelloKernelTable& table = gpu::installed_kernels(Settings::from_environment().gpu_plugin);
  auto* const sum = reinterpret_cast<double*>(memory[1].get());
  say("square_sum", 1, [&] { table.square_sum(memory[0].get(), sum, elems, on.stream()); });
  const auto cast = [&](DType from, DType to) {
    const AnelloPart part{memory[0].get(), memory[1].get(), elems};
    table.cast(&part, 1, int(from), int(to), 1, on.stream());
  };
  say("cast to f16", 1.5, [&] { cast(DType::f32, DType::f16); });
  say("cast from f16", 1.5, [&] { cast(DType::f16, DType::f32); });
  say("cast to bf16", 1.5, [&] { cast(DType::f32, DType::bf16); });
  say("cast from bf16", 1.5, [&] { cast(DType::bf16, DType::f32); });
  say("scale out of place", 2, [&] { cast(DType::f32, DType::f32); });
  const std::size_t row_count = elems / kColumns;
  std::vector<std::uint32_t> order(row_count);
  for (std::size_t i = 0; i < row_count; i++) order[i] = std::uint32_t(row_count - 1 - i);
  auto* const indices = reinterpret_cast<std::uint32_t*>(memory[3].get());
  auto* const labels = reinterpret_cast<std::uint8_t*>(indices + row_count);
  gpu::copy(device(), indices, order.data(), row_count * sizeof order[0], on.stream());
  gpu::zero(device(), labels, row_count, on.stream());
  auto* const pixels = reinterpret_cast<std::uint8_t*>(memory[0].get());
  say("gather", 1.25, [&] {
    table.gather(pixels, labels, indices, 0.0F, 1.0F, memory[1].get(), labels, row_count, kColumns, on.stream());
  });
  auto* const score = reinterpret_cast<AnelloScore*>(memory[2].get());
  say("cross_entropy", 2,
      [&] { table.cross_entropy(memory[0].get(), labels, memory[1].get(), score, row_count, kColumns, on.stream()); });
}

GpuGroup staged_gpus_of(World& world, std::size_t segment_bytes) {
  const GpuGroupAccess::Impl::Options options{
      .backend = "staged", .staged = {.segment_bytes = segment_bytes}, .device = 0};
  return GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(
      world, world, options, [] { return GpuGroupAccess::Impl::Tables{&library().table()}; }));
}

// Measures the host's cost for a call, beyond NCCL's own cost. Calls the backend directly, because a GpuGroup of one
// rank would not call NCCL. The calls are out of place, because in place NCCL would launch nothing.
void nccl() {
  run_world(1, [](World& world) {
    const gpu::Stream stream = gpu::make_stream(device());
    const gpu::DeviceMemory input = gpu::make_memory(device(), 4), output = gpu::make_memory(device(), 4);
    const Tensor in(input.get(), 1, DType::f32), out(output.get(), 1, DType::f32);
    const char* why = "";
    const AnelloNcclTable& bare = *library().table().nccl(&why);
    gpu::NcclCommunicator communicator(world, device(), bare, {});
    const AnelloKernelTable& kernels = gpu::installed_kernels(Settings::from_environment().gpu_plugin);
    gpu::Verbs<gpu::Nccl> own(world, device(), gpu::Nccl::Tables{&bare, &kernels}, gpu::NcclCommunicator::Limits(),
                              false);
    const double ours = queued_us(stream.get(), 200, [&] { own.allreduce(in, out, stream.get(), Op::sum, {}); });
    double theirs = 0;
    const gpu::NcclCall call{{.count = 1, .kind = Kind::allreduce, .dtype = DType::f32}, "bare"};
    communicator.run(call, stream.get(), [&](void* comm) {
      int failed = 0;
      theirs = queued_us(stream.get(), 200, [&] {
        const int status = bare.allreduce(in.data, out.data, 1, int(DType::f32), int(Op::sum), comm, stream.get());
        if (status != 0 && status != ANELLO_NCCL_IN_PROGRESS) failed = status;
      });
      return failed;
    });
    std::printf(
        "nccl             %8.2f us     bare ncclAllReduce of 4 bytes, world of 1: what a call costs, no message\n",
        theirs);
    std::printf("nccl, ours       %8.2f us     %.2f us more\n", ours, ours - theirs);
  });
}

// Measures the three stages of a staged call, separately and together, for each segment size. Staged::Limits has the
// best size.
void staged(int ranks, std::size_t elems) {
  run_world(ranks, [&](World& world) {
    const std::size_t bytes = elems * sizeof(float);
    const gpu::Stream stream = gpu::make_stream(device());
    const gpu::DeviceMemory memory = gpu::make_memory(device(), bytes);
    const gpu::PinnedMemory pinned = gpu::make_pinned(device(), bytes);
    const Tensor on_gpu(memory.get(), elems, DType::f32), on_host(pinned.get(), elems, DType::f32);
    const auto all = [&](const std::function<void()>& call) {
      world.barrier();
      const double own = queued_us(stream.get(), 1, call);
      return world.average(own);
    };
    const double down = all([&] { gpu::copy(device(), pinned.get(), memory.get(), bytes, stream.get()); });
    const double up = all([&] { gpu::copy(device(), memory.get(), pinned.get(), bytes, stream.get()); });
    const double ring = all([&] { world.allreduce(on_host); });
    const double slowest = std::max({down, up, ring});
    for (const std::size_t segment : {1 << 20, 2 << 20, 4 << 20, 8 << 20}) {
      GpuGroup gpus = staged_gpus_of(world, segment);
      const double together = all([&] { gpus.allreduce(on_gpu, stream.get()); });
      if (world.rank() == 0)
        std::printf(
            "staged           %8.0f us     %d ranks, %zu KiB in segments of %zu KiB: down %.0f, ring %.0f, "
            "up %.0f us; %.0f %% of the slowest\n",
            together, ranks, bytes >> 10, segment >> 10, down, ring, up, 100 * slowest / together);
    }
  });
}

}  // namespace

int main() {
  try {
    kernels(64 << 20);
    for (const int ranks : {2, 4})
      for (const std::size_t elems : {1 << 10, 256 << 10, 4 << 20, 16 << 20}) staged(ranks, elems);
    nccl();  // last, so that the other figures are printed even if NCCL does not start here
  } catch (const std::exception& error) {
    std::fprintf(stderr, "figures: %s\n", error.what());
    return 1;
  }
}
