// What makes training data-parallel: an optimizer that steps along the gradient averaged over all ranks, and the check
// that the ranks agree. One rank, one thread; every call but ready() is collective.
#pragma once
#include <anello/gradients.hpp>
#include <anello/world.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/device.hpp"
#include "trainer/optimizer.hpp"

namespace anello::trainer {

// "none", "fp16" or "bf16": as what gradients travel; none if as they are.
std::optional<DType> wire_type(std::string_view compression);

struct Averaging {
  std::size_t global_batch = 1;
  std::optional<DType> wire = {};
  bool error_feedback = false;
  std::optional<double> max_norm = {};  // without it there is no limit
  int accumulation_passes = 1;          // backward passes in each step
  bool tune_buckets = false;
};

class DataParallel {
 public:
  // `gradients` are the parts of `gradient`, which is that of `parameters`. All memory, the device's, outlives this.
  DataParallel(World& world, Device& device, std::span<float> parameters, std::span<float> gradient,
               std::span<const Gradient> gradients, std::unique_ptr<Optimizer> optimizer, const Averaging& averaging);

  // A step: begin(), then ready() for each of the gradients when it is complete, once in each accumulation pass;
  // then step(), which blocks until all ranks have called it. Gradients are summed over this rank's samples; they are
  // replaced by the sum over all ranks divided by the global batch, and travel meanwhile. An epoch's last batch, if
  // smaller, is divided by as much: every sample weighs the same, and a last batch of one does not throw the model
  // about. Dividing comes before rounding to 16 bits, so that large sums do not overflow them. Errors as of
  // World::allreduce.
  void begin() { gradients_->begin(1.0 / double(global_batch_)); }
  void ready(std::size_t gradient) { gradients_->ready(gradient); }
  void step(double rate, std::uint64_t count);

  std::vector<std::span<float>> state() { return optimizer_->state(); }

  // Since construction: waited for, and gone on while this rank computed.
  struct Communication {
    double exposed_seconds = 0, hidden_seconds = 0;
  };
  const Communication& communication() const { return communication_; }

 private:
  World& world_;
  std::span<float> parameters_, gradient_;
  std::unique_ptr<Optimizer> optimizer_;
  std::size_t global_batch_;
  std::unique_ptr<GradientSum> gradients_;
  Communication communication_;
};

// Error{mismatch} on every rank if one has another value than rank 0, with that rank, its host and `what` in it.
void require_equal(World& world, std::uint64_t value, std::string_view what);

}  // namespace anello::trainer
