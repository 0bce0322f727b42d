// Data-parallel training: an optimizer that steps along the gradient averaged over all ranks. Used by one thread of
// each rank. Every call except ready() is collective.
#pragma once
#include <anello/gradients.hpp>
#include <anello/world.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/checkpoint.hpp"
#include "trainer/device.hpp"
#include "trainer/optimizer.hpp"

namespace anello::trainer {

// The type in which gradients are sent for "fp16" and "bf16"; nothing for "none", which sends them unchanged.
std::optional<DType> wire_type(std::string_view compression);

struct Averaging {
  std::size_t global_batch = 1;
  std::optional<DType> wire = {};
  bool error_feedback = false;
  std::optional<double> max_norm = {};  // nothing: no limit
  int accumulation_passes = 1;          // backward passes in each step
  bool tune_buckets = false;
};

class DataParallel {
 public:
  // `gradient` belongs to `parameters`; `gradients` are the parts of `gradient`. All are in the device's memory and
  // must outlive this object.
  DataParallel(World& world, Device& device, std::span<float> parameters, std::span<float> gradient,
               std::span<const Gradient> gradients, std::unique_ptr<Optimizer> optimizer, const Averaging& averaging);

  // A step: begin(); in each backward pass ready() for each gradient as soon as it is complete; then step(), which
  // blocks until all ranks have called it.
  // A rank passes in gradients summed over its samples. They are reduced while the backward pass runs: the sum over all
  // ranks, divided by the global batch, replaces them. The smaller last batch of an epoch is divided by the same
  // number, so that every sample has the same weight and a last batch of one sample does not distort the model. The
  // division comes before the rounding to 16 bits, so that large sums do not overflow. Throws the errors of
  // World::allreduce.
  void begin() { gradients_->begin(1.0 / double(global_batch_)); }
  void ready(std::size_t gradient) { gradients_->ready(gradient); }
  void step(double rate, std::uint64_t count);

  std::vector<std::span<float>> state() { return optimizer_->state(); }

  // The rounding errors that error feedback has kept on each rank, for a checkpoint. Both functions are collective and
  // block; both need host memory on rank 0 for the parameters of all ranks. Without error feedback nothing is sent.
  Residuals gather_residuals();  // rank 0: by rank; others, and without error feedback: empty
  // Rank 0 passes the residuals that any number of ranks has saved; the argument is ignored on other ranks. On n ranks,
  // rank r takes the sum of those of ranks r, r + n, ...: its own if the number of ranks is the same, and always the
  // same sum over all ranks.
  void scatter_residuals(const Residuals& saved);

  // Times since construction: communication that this rank waited for, and that ran while it computed.
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

}  // namespace anello::trainer
