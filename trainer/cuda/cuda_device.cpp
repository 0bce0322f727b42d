// Training on this rank's GPU, through the plugins for devices and for kernels.
#include <anello/error.hpp>
#include <anello/gpu_gradients.hpp>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/collective_check.hpp"
#include "gpu/plugin_loader.hpp"
#include "ring/world/bootstrap.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/device.hpp"

namespace anello::trainer {
namespace {

// Makes sums of gradients from averages, times the number of ranks: NCCL's average can include a factor at no cost, but
// a sum with a factor needs packed gradients. Computes the norm of the sums after finish(), because GpuGradients has no
// max_norm.
class CudaGradients : public GradientSum {
 public:
  CudaGradients(GpuGroup& group, CudaBackend& backend, std::span<const Gradient> gradients, GradientOptions options)
      : backend_(backend),
        max_norm_(std::exchange(options.max_norm, std::nullopt)),
        ranks_(options.combine == GradientOptions::Combine::sum ? group.group().size() : 1),
        gradients_(group, gradients, backend.stream(), averaged(options)) {
    for (const Gradient& gradient : gradients)
      values_.emplace_back(static_cast<float*>(gradient.tensor.data), gradient.tensor.count);
  }
  void begin(double factor) override { gradients_.begin(factor * ranks_); }
  void ready(std::size_t gradient) override { gradients_.ready(gradient); }
  StepStats finish() override {
    StepStats step = gradients_.finish();
    if (!max_norm_) return step;
    const double norm = std::sqrt(backend_.square_sum(values_));
    step.norm = norm;
    if (norm > *max_norm_)
      for (const auto& values : values_) backend_.scale(float(*max_norm_ / norm), values);
    return step;
  }

 private:
  static GradientOptions averaged(GradientOptions options) {
    if (options.combine == GradientOptions::Combine::sum) options.combine = GradientOptions::Combine::average;
    return options;
  }

  CudaBackend& backend_;
  std::optional<double> max_norm_;
  double ranks_;
  GpuGradients gradients_;
  std::vector<std::span<float>> values_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(World& world, const gpu::DevicePlugin& library, const AnelloKernelTable& kernels, bool graphs)
      : group_(world) {
    gpu::all_or_none(world, world, [&] {  // checked on all ranks, because cuBLAS may be missing on one rank
      backend_.emplace(gpu::Device{&library.table(), gpu::DeviceId(group_.device())}, kernels, graphs);
    });
  }

  Backend& backend() override { return *backend_; }
  void broadcast(std::span<const Tensor> list, int root, const Options& options) override {
    group_.broadcast(list, root, backend_->stream(), options);
  }
  std::unique_ptr<GradientSum> sum(std::span<const Gradient> gradients, const GradientOptions& options) override {
    return std::make_unique<CudaGradients>(group_, *backend_, gradients, options);
  }

 private:
  GpuGroup group_;
  std::optional<CudaBackend> backend_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(World& world, bool graphs) {
  const gpu::DevicePlugin* library = nullptr;
  const AnelloKernelTable* kernels = nullptr;
  gpu::all_or_none(world, world, [&] {
    const std::string& plugin = world::WorldMaker::settings(world).gpu_plugin;
    library = &gpu::installed(plugin);
    kernels = &gpu::installed_kernels(plugin);
  });
  return std::make_unique<CudaDevice>(world, *library, *kernels, graphs);
}

}  // namespace anello::trainer
