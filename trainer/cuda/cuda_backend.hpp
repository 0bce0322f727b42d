// The arithmetic of training on a GPU: every function of Backend queues a kernel on one stream. The host waits only in
// functions that return numbers: copy_out(), take_score(), square_sum(). Used by one thread; this GPU must be the
// thread's current device while the backend exists. Does not depend on ranks.
#pragma once
#include <vector>

#include "gpu/device.hpp"
#include "gpu/kernels/kernel_table.h"
#include "trainer/backend.hpp"

namespace anello::trainer {

class CudaBackend : public Backend {
 public:
  // The tables must outlive this object. Without graphs, repeat() queues all kernels each time. Throws Error{device}.
  CudaBackend(const gpu::Device& device, const AnelloKernelTable& kernels, bool graphs = true);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  GpuStream stream() const { return stream_.get(); }

  std::string name() const override;
  Memory allocate(std::size_t elems) override;
  void copy_in(std::span<const float> host, float* to) override;
  Labels allocate_labels(std::size_t count) override;
  void copy_in(std::span<const std::uint8_t> host, std::uint8_t* to) override;
  void copy_out(const float* from, std::span<float> host) override;
  bool gather(const Chosen& chosen, Matrix images, std::uint8_t* labels) override;
  void repeat(Recording& recording, const std::function<void()>& work) override;
  void multiply(ConstMatrix a, ConstMatrix b, Matrix product) override;
  void add_to_rows(std::span<const float> row, Matrix to) override;
  void sum_rows(ConstMatrix from, std::span<float> row) override;
  void relu(ConstMatrix in, Matrix out) override;
  void relu_gradient(ConstMatrix out, ConstMatrix out_gradient, Matrix in_gradient) override;
  void cross_entropy(ConstMatrix scores, std::span<const std::uint8_t> labels, Matrix gradient) override;
  Score take_score() override;
  void add(std::span<const float> from, std::span<float> to) override;
  void scale(float factor, std::span<float> values) override;
  double square_sum(std::span<const std::span<float>> list) override;
  void momentum_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> velocity,
                     float rate, float momentum) override;
  void adam_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> mean,
                 std::span<float> square, const AdamRates& rates) override;

 private:
  // Pinned host memory through which bytes are copied to the device. When `passed` is done, the host may write to the
  // memory again.
  struct Staging {
    gpu::PinnedMemory memory;
    std::size_t bytes = 0;
    gpu::Event passed;
  };
  // A copy of all samples in the device's memory, or nothing if they do not fit.
  struct Resident {
    const std::uint8_t* of;  // host memory
    gpu::DeviceMemory pixels, labels;
  };
  template <class T>
  std::unique_ptr<T[], std::function<void(T*)>> allocate_zeroed(std::size_t count);
  const Resident& resident(const Chosen& chosen);
  template <class Kernel, class... Arguments>
  void queue(std::string_view what, Kernel kernel, Arguments... arguments);
  bool drain() noexcept;
  void clear(const gpu::DeviceMemory& memory, std::size_t bytes);
  void send(Staging& staging, void* to, const void* from, std::size_t bytes);
  void receive(const void* from, void* to, std::size_t bytes);

  gpu::Device device_;
  gpu::DeviceGuard current_{device_};
  const AnelloKernelTable* kernels_;
  gpu::Stream stream_;
  void* context_ = nullptr;
  bool graphs_;
  Staging floats_, bytes_;
  gpu::PinnedMemory arrived_;
  std::size_t arrived_bytes_ = 0;
  gpu::Event arrival_;
  gpu::DeviceMemory indices_, score_, sum_;
  std::size_t index_room_ = 0;
  std::vector<Resident> residents_;
};

}  // namespace anello::trainer
