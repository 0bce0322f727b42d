// Data-parallel training: an optimizer that uses the gradient averaged over all ranks. Used by one thread of each rank.
// Every call except ready() and apply() is collective.
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
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/options.hpp"

namespace anello::trainer {

// Returns the type in which gradients are sent for "fp16" and "bf16". Empty for "none": gradients are sent unchanged.
std::optional<DType> wire_type(std::string_view compression);

struct Averaging {
  std::size_t global_batch = 1;
  std::optional<DType> wire = {};
  bool error_feedback = false;
  std::optional<double> max_norm = {};  // empty: no limit
  int accumulation_passes = 1;          // backward passes in each step
  bool tune_buckets = false;
};

Averaging averaging_of(const TrainOptions& options, std::size_t global_batch);

// The names are borrowed from `layers`.
std::vector<Gradient> list_of(const std::vector<Model::LayerGradient>& layers);

class DataParallel {
 public:
  // `gradient` is the gradient of `parameters`; `gradients` are the parts of `gradient`. All are in the device's memory
  // and must outlive this object.
  DataParallel(World& world, Device& device, std::span<float> parameters, std::span<float> gradient,
               std::span<const Gradient> gradients, std::shared_ptr<Optimizer> optimizer, const Averaging& averaging);

  // A step: begin(); in each backward pass, ready() for each gradient as soon as it is complete; then reduce(), which
  // blocks until all ranks have called it; then apply(), which moves the parameters and is not collective.
  // A rank's gradients are sums over its samples. They are reduced while the backward pass runs. The results replace
  // the gradients: the sum over all ranks, divided by the global batch. The last batch of an epoch may be smaller, but
  // is divided by the same number. So every sample has the same weight, and a last batch of one sample does not distort
  // the model. The division comes before the rounding to 16 bits, so that large sums do not overflow. Throws the errors
  // of World::allreduce.
  void begin() { gradients_->begin(1.0 / double(global_batch_)); }
  void ready(std::size_t gradient) { gradients_->ready(gradient); }
  void reduce();
  void apply(double rate, std::uint64_t count);
  void step(double rate, std::uint64_t count) {
    reduce();
    apply(rate, count);
  }

  std::vector<std::span<float>> state() { return optimizer_->state(); }

  // The rounding errors that error feedback has kept on each rank, for a checkpoint. Both functions are collective and
  // block. In both, rank 0 needs host memory for the errors of all ranks: for each rank a float for each parameter.
  // Without error feedback nothing is sent.
  Residuals gather_residuals();  // on rank 0, by rank; empty on other ranks and without error feedback
  // On rank 0, `saved` has the saved residuals, of any number of ranks; other ranks' arguments are ignored. On n ranks,
  // rank r takes the sum of the residuals of ranks r, r + n, ... If the number of ranks is unchanged, each rank takes
  // its own residuals. In any case the sum over all ranks stays the same.
  void scatter_residuals(const Residuals& saved);

  // Two times since construction: the time of communication for which this rank waited, and the time of communication
  // that ran while the rank computed.
  struct Communication {
    double exposed_seconds = 0, hidden_seconds = 0;
  };
  const Communication& communication() const { return communication_; }

 private:
  World& world_;
  std::span<float> parameters_, gradient_;
  std::shared_ptr<Optimizer> optimizer_;
  std::size_t global_batch_;
  std::unique_ptr<GradientSum> gradients_;
  Communication communication_;
};

}  // namespace anello::trainer
