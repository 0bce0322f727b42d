// The device that a rank trains on: where its tensors lie, what computes on them, and how they reach the other ranks.
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

// Sums gradients over the ranks while the backward pass makes them; see anello::Gradients.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  virtual void begin(double factor) = 0;
  virtual void ready(std::size_t gradient) = 0;
  virtual StepStats finish() = 0;
  virtual std::vector<std::span<float>> residuals() { return {}; }  // in host memory; empty without error feedback
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Backend& backend() = 0;
  // Collective. The tensors lie in the backend's memory.
  virtual void broadcast(std::span<const Tensor> list, int root, const Options& options) = 0;
  virtual std::unique_ptr<GradientSum> sum(std::span<const Gradient> gradients, const GradientOptions& options) = 0;
};

// The processor. The world must outlive it.
std::unique_ptr<Device> make_host_device(World& world);

// This rank's GPU: its number on the host, modulo the GPUs there. All ranks call; the world must outlive the device.
// Throws Error{unsupported} on all ranks if one of them has no GPU or no kernels, and says which rank and what is
// missing.
// What each step repeats is captured in CUDA graphs, except with `graphs` false.
std::unique_ptr<Device> make_cuda_device(World& world, bool graphs);

// "cpu", "cuda", or "auto", which is the processor. All ranks call. Errors as of make_cuda_device().
std::unique_ptr<Device> pick_device(std::string_view device, World& world, bool graphs = true);

}  // namespace anello::trainer
