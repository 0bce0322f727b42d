// The device on which a rank trains: it holds the tensors in its memory, computes, and reduces tensors over the ranks.
// Used by one thread of each rank.
#pragma once
#include <anello/gradients.hpp>
#include <anello/world.hpp>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/backend.hpp"

namespace anello::trainer {

// Sums gradients over the ranks while the backward pass runs; see anello::Gradients.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  virtual void begin(double factor) = 0;
  virtual void ready(std::size_t gradient) = 0;
  virtual StepStats finish() = 0;
  // The rounding errors, in host memory; empty without error feedback.
  virtual std::vector<std::span<float>> residuals() { return {}; }
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Backend& backend() = 0;
  // Collective. The tensors are in the backend's memory.
  virtual void broadcast(std::span<const Tensor> list, int root, const Options& options) = 0;
  virtual std::unique_ptr<GradientSum> sum(std::span<const Gradient> gradients, const GradientOptions& options) = 0;
};

// Makes the device that is this host's processor. The world must outlive the device. A backend that is given may have
// tensors that outlive the world.
std::unique_ptr<Device> make_host_device(World& world, std::shared_ptr<Backend> backend = make_cpu_backend());

// Makes the device for this rank's GPU: GPU number (local rank modulo number of GPUs) of its host. All ranks call this.
// The world must outlive the device. Throws Error{unsupported} on all ranks if any rank has no GPU or no kernels; the
// message names the rank and what is missing. The work that is repeated in each step is captured in CUDA graphs, unless
// `graphs` is false.
std::unique_ptr<Device> make_cuda_device(World& world, bool graphs);

// `device` is "cpu", "cuda", or "auto", which means the processor. All ranks call this. Throws the errors of
// make_cuda_device().
std::unique_ptr<Device> pick_device(std::string_view device, World& world, bool graphs = true);

}  // namespace anello::trainer
