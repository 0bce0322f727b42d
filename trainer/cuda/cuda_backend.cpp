#include "trainer/cuda/cuda_backend.hpp"

#include <anello/error.hpp>
#include <cstring>

#include "ring/base/check.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::trainer {
namespace {
constexpr std::chrono::milliseconds kForever{0};

struct Graph : Backend::Kept {
  gpu::Graph graph;  // empty until the second call of repeat()
};
}  // namespace

CudaBackend::CudaBackend(const gpu::Device& device, const AnelloKernelTable& kernels, bool graphs)
    : device_(device),
      kernels_(&kernels),
      stream_(gpu::make_stream(device)),
      graphs_(graphs),
      arrival_(gpu::make_event(device)) {
  floats_.passed = gpu::make_event(device);
  bytes_.passed = gpu::make_event(device);
  score_ = gpu::make_memory(device, sizeof(AnelloScore));
  sum_ = gpu::make_memory(device, (1 + ANELLO_SQUARE_PARTS) * sizeof(double));
  clear(score_, sizeof(AnelloScore));
  if (const int status = kernels_->create(&context_); status != 0)
    throw Error(ErrorCode::device,
                text("GPU ", int(device.id), ": making a cuBLAS handle: ", kernels_->describe(status)));
}

// Waits for all queued work, because it may use memory that is about to be released. Returns false if the work is not
// done in time.
bool CudaBackend::drain() noexcept {
  try {
    gpu::record(device_, arrival_, stream());
    gpu::wait(device_, arrival_, gpu::kLastWait, "the end of all queued work");
    return true;
  } catch (const Error&) {
    return false;
  }
}

CudaBackend::~CudaBackend() {
  if (!drain()) {
    for (gpu::DeviceMemory* memory : {&indices_, &score_, &sum_}) memory->leak();
    for (gpu::PinnedMemory* memory : {&floats_.memory, &bytes_.memory, &arrived_}) memory->leak();
    for (Resident& resident : residents_) {
      resident.pixels.leak();
      resident.labels.leak();
    }
    return;
  }
  kernels_->destroy(context_);
}

void CudaBackend::clear(const gpu::DeviceMemory& memory, std::size_t bytes) {
  gpu::zero(device_, memory.get(), bytes, stream());
}

template <class Kernel, class... Arguments>
void CudaBackend::queue(std::string_view what, Kernel kernel, Arguments... arguments) {
  if (const int status = (kernels_->*kernel)(arguments..., stream()); status != 0)
    throw Error(ErrorCode::device,
                text("GPU ", int(device_.id), ", stream ", stream(), ": ", what, ": ", kernels_->describe(status)));
}

std::string CudaBackend::name() const {
  AnelloGpuInfo info{};
  gpu::check(device_, device_.table->device_info(int(device_.id), &info), "asking for its properties");
  return text("cuda (", info.name, ")");
}

template <class T>
std::unique_ptr<T[], std::function<void(T*)>> CudaBackend::allocate_zeroed(std::size_t count) {
  const auto owned = std::make_shared<gpu::DeviceMemory>(gpu::make_memory(device_, count * sizeof(T)));
  clear(*owned, count * sizeof(T));
  return {static_cast<T*>(owned->get()), [this, owned](T*) {
            if (!drain()) owned->leak();
          }};
}
Backend::Memory CudaBackend::allocate(std::size_t elems) {
  return allocate_zeroed<float>(elems);
}
Backend::Labels CudaBackend::allocate_labels(std::size_t count) {
  return allocate_zeroed<std::uint8_t>(count);
}

void CudaBackend::send(Staging& staging, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (staging.bytes > 0) gpu::wait(device_, staging.passed, kForever, "copying to the device");
  if (bytes > staging.bytes) {
    staging.memory = gpu::make_pinned(device_, bytes);
    staging.bytes = bytes;
  }
  std::memcpy(staging.memory.get(), from, bytes);
  gpu::copy(device_, to, staging.memory.get(), bytes, stream());
  gpu::record(device_, staging.passed, stream());
}

void CudaBackend::receive(const void* from, void* to, std::size_t bytes) {
  if (bytes > arrived_bytes_) {
    arrived_ = gpu::make_pinned(device_, bytes);
    arrived_bytes_ = bytes;
  }
  gpu::copy(device_, arrived_.get(), from, bytes, stream());
  gpu::record(device_, arrival_, stream());
  gpu::wait(device_, arrival_, kForever, "copying from the device");
  std::memcpy(to, arrived_.get(), bytes);
}

void CudaBackend::copy_in(std::span<const float> host, float* to) {
  send(floats_, to, host.data(), host.size_bytes());
}
void CudaBackend::copy_in(std::span<const std::uint8_t> host, std::uint8_t* to) {
  send(bytes_, to, host.data(), host.size());
}
void CudaBackend::copy_out(const float* from, std::span<float> host) {
  if (!host.empty()) receive(from, host.data(), host.size_bytes());
}

const CudaBackend::Resident& CudaBackend::resident(const Chosen& chosen) {
  for (const Resident& known : residents_)
    if (known.of == chosen.pixels.data()) return known;
  Resident& all = residents_.emplace_back();
  all.of = chosen.pixels.data();
  try {
    all.labels = gpu::make_memory(device_, chosen.labels.size());
    all.pixels = gpu::make_memory(device_, chosen.pixels.size());
  } catch (const Error& full) {
    log(Severity::info, text("every batch is copied from host memory: ", full.what()));
    all.labels = {};
    return all;
  }
  gpu::copy(device_, all.labels.get(), chosen.labels.data(), chosen.labels.size(), stream());
  gpu::copy(device_, all.pixels.get(), chosen.pixels.data(), chosen.pixels.size(), stream());
  return all;
}

bool CudaBackend::gather(const Chosen& chosen, Matrix images, std::uint8_t* labels) {
  const Resident& all = resident(chosen);
  if (!all.pixels) return false;
  if (chosen.indices.size() > index_room_) {
    if (!drain()) indices_.leak();
    indices_ = gpu::make_memory(device_, chosen.indices.size_bytes());
    index_room_ = chosen.indices.size();
  }
  send(bytes_, indices_.get(), chosen.indices.data(), chosen.indices.size_bytes());
  queue("choosing samples", &AnelloKernelTable::gather, static_cast<const std::uint8_t*>(all.pixels.get()),
        static_cast<const std::uint8_t*>(all.labels.get()), static_cast<const std::uint32_t*>(indices_.get()),
        chosen.shift, chosen.scale, images.data, labels, images.rows, images.columns);
  return true;
}

// The first call queues the work itself, because libraries load code and allocate memory in their first calls, and both
// are forbidden during a capture.
void CudaBackend::repeat(Recording& recording, const std::function<void()>& work) {
  if (!graphs_ || !recording) {
    work();
    if (!recording) recording = std::make_unique<Graph>();
    return;
  }
  auto& kept = static_cast<Graph&>(*recording);
  if (!kept.graph) {
    gpu::Capture capture(device_, stream());
    work();
    kept.graph = capture.end();
  }
  gpu::launch(device_, kept.graph, stream());
}

void CudaBackend::multiply(ConstMatrix a, ConstMatrix b, Matrix product) {
  ANELLO_CHECK(a.columns == b.rows && product.rows == a.rows && product.columns == b.columns);
  queue("multiplying matrices", &AnelloKernelTable::multiply, context_, a.data, int(a.transposed), b.data,
        int(b.transposed), product.data, a.rows, a.columns, b.columns);
}

void CudaBackend::add_to_rows(std::span<const float> row, Matrix to) {
  queue("adding to rows", &AnelloKernelTable::add_to_rows, row.data(), to.data, to.rows, to.columns);
}

void CudaBackend::sum_rows(ConstMatrix from, std::span<float> row) {
  queue("summing rows", &AnelloKernelTable::sum_rows, from.data, row.data(), from.rows, from.columns);
}

void CudaBackend::relu(ConstMatrix in, Matrix out) {
  queue("rectifying", &AnelloKernelTable::relu, in.data, out.data, out.size());
}

void CudaBackend::relu_gradient(ConstMatrix out, ConstMatrix out_gradient, Matrix in_gradient) {
  queue("the rectifier's gradient", &AnelloKernelTable::relu_gradient, out.data, out_gradient.data, in_gradient.data,
        in_gradient.size());
}

void CudaBackend::cross_entropy(ConstMatrix scores, std::span<const std::uint8_t> labels, Matrix gradient) {
  ANELLO_CHECK(labels.size() == scores.rows);
  queue("the loss", &AnelloKernelTable::cross_entropy, scores.data, labels.data(), gradient.data,
        static_cast<AnelloScore*>(score_.get()), scores.rows, scores.columns);
}

Score CudaBackend::take_score() {
  AnelloScore sum{};
  receive(score_.get(), &sum, sizeof sum);
  clear(score_, sizeof sum);
  return {.loss = sum.loss, .correct = std::size_t(sum.correct)};
}

void CudaBackend::add(std::span<const float> from, std::span<float> to) {
  queue("adding", &AnelloKernelTable::add, from.data(), to.data(), from.size());
}

void CudaBackend::scale(float factor, std::span<float> values) {
  queue("scaling", &AnelloKernelTable::scale, factor, values.data(), values.size());
}

double CudaBackend::square_sum(std::span<const std::span<float>> list) {
  clear(sum_, sizeof(double));
  for (const auto& values : list)
    queue("the norm", &AnelloKernelTable::square_sum, static_cast<const float*>(values.data()),
          static_cast<double*>(sum_.get()), values.size());
  double sum = 0;
  receive(sum_.get(), &sum, sizeof sum);
  return sum;
}

void CudaBackend::momentum_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> velocity,
                                float rate, float momentum) {
  queue("a step with momentum", &AnelloKernelTable::momentum_step, parameters.data(), gradient.data(), velocity.data(),
        rate, momentum, parameters.size());
}

void CudaBackend::adam_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> mean,
                            std::span<float> square, const AdamRates& rates) {
  queue("a step of Adam", &AnelloKernelTable::adam_step, parameters.data(), gradient.data(), mean.data(), square.data(),
        rates.step, rates.beta1, rates.beta2, rates.epsilon, parameters.size());
}

}  // namespace anello::trainer
