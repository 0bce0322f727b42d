// What a rank trains on: where its tensors lie and what computes on them, and how they get to the other ranks. One
// thread a rank.
#pragma once
#include <anello/gradients.hpp>
#include <anello/world.hpp>
#include <memory>
#include <span>
#include <string_view>

#include "trainer/backend.hpp"

namespace anello::trainer {

// Gradients that are summed over the ranks while they are made; as anello::Gradients does.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  virtual void begin(double factor) = 0;
  virtual void ready(std::size_t gradient) = 0;
  virtual StepStats finish() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Backend& backend() = 0;
  // Collective, of tensors in the backend's memory.
  virtual void broadcast(std::span<const Tensor> list, int root, const Options& options) = 0;
  virtual std::unique_ptr<GradientSum> sum(std::span<const Gradient> gradients, const GradientOptions& options) = 0;
};

// The processor. The world outlives it.
std::unique_ptr<Device> make_host_device(World& world);

// "cpu", "cuda", or "auto", which is the processor. All ranks call. Error{unsupported} on all of them that says what is
// missing, and on which.
std::unique_ptr<Device> pick_device(std::string_view device, World& world);

}  // namespace anello::trainer
