#include "trainer/cuda/cuda_backend.hpp"

#include <anello/error.hpp>
#include <cstring>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello::trainer {
namespace {
constexpr std::chrono::milliseconds kForever{0};
}

CudaBackend::CudaBackend(const gpu::Device& device, const AnelloKernelTable& kernels)
    : device_(device), kernels_(&kernels), stream_(gpu::make_stream(device)), arrival_(gpu::make_event(device)) {
  images_.passed = gpu::make_event(device);
  labels_.passed = gpu::make_event(device);
  score_ = gpu::make_memory(device, sizeof(AnelloScore));
  sum_ = gpu::make_memory(device, (1 + ANELLO_SQUARE_PARTS) * sizeof(double));
  clear(score_, sizeof(AnelloScore));
  if (const int status = kernels_->create(&context_); status != 0)
    throw Error(ErrorCode::device,
                text("GPU ", int(device.id), ": making a cuBLAS handle: ", kernels_->describe(status)));
}

// Waits for all that is queued, because it may use memory that is about to be released. False: it is not done in time.
bool CudaBackend::drain() noexcept {
  try {
    gpu::record(device_, arrival_, stream());
    gpu::wait(device_, arrival_, gpu::kLastWait, "the end of what is queued");
    return true;
  } catch (const Error&) {
    return false;
  }
}

CudaBackend::~CudaBackend() {
  if (!drain()) {
    for (gpu::DeviceMemory* memory : {&label_memory_, &score_, &sum_}) memory->leak();
    for (gpu::PinnedMemory* memory : {&images_.memory, &labels_.memory, &arrived_}) memory->leak();
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

Backend::Memory CudaBackend::allocate(std::size_t elems) {
  const auto owned = std::make_shared<gpu::DeviceMemory>(gpu::make_memory(device_, elems * sizeof(float)));
  gpu::zero(device_, owned->get(), elems * sizeof(float), stream());
  return {static_cast<float*>(owned->get()), [this, owned](float*) {
            if (!drain()) owned->leak();
          }};
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
  send(images_, to, host.data(), host.size_bytes());
}
void CudaBackend::copy_out(const float* from, std::span<float> host) {
  if (!host.empty()) receive(from, host.data(), host.size_bytes());
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
  if (labels.size() > label_room_) {
    if (!drain()) label_memory_.leak();
    label_memory_ = gpu::make_memory(device_, labels.size());
    label_room_ = labels.size();
  }
  send(labels_, label_memory_.get(), labels.data(), labels.size());
  queue("the loss", &AnelloKernelTable::cross_entropy, scores.data,
        static_cast<const std::uint8_t*>(label_memory_.get()), gradient.data, static_cast<AnelloScore*>(score_.get()),
        scores.rows, scores.columns);
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
