#include "trainer/device.hpp"

#include <utility>

namespace anello::trainer {
namespace {

class HostGradients : public GradientSum {
 public:
  explicit HostGradients(Gradients gradients) : gradients_(std::move(gradients)) {}
  void begin(double factor) override { gradients_.begin(factor); }
  void ready(std::size_t gradient) override { gradients_.ready(gradient); }
  StepStats finish() override { return gradients_.finish(); }
  std::vector<std::span<float>> residuals() override { return gradients_.residuals(); }

 private:
  Gradients gradients_;
};

class HostDevice : public Device {
 public:
  HostDevice(World& world, std::shared_ptr<Backend> backend) : world_(world), backend_(std::move(backend)) {}
  Backend& backend() override { return *backend_; }
  void broadcast(std::span<const Tensor> list, int root, const Options& options) override {
    world_.broadcast(list, root, options);
  }
  std::unique_ptr<GradientSum> sum(std::span<const Gradient> gradients, const GradientOptions& options) override {
    return std::make_unique<HostGradients>(Gradients(world_, gradients, options));
  }

 private:
  World& world_;
  std::shared_ptr<Backend> backend_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(World& world, std::shared_ptr<Backend> backend) {
  return std::make_unique<HostDevice>(world, std::move(backend));
}

std::unique_ptr<Device> pick_device(std::string_view device, World& world, bool graphs) {
  return device == "cuda" ? make_cuda_device(world, graphs) : make_host_device(world);
}

}  // namespace anello::trainer
