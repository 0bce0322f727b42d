// The learning rate of each step. A batch that is k times larger averages out noise and takes k times fewer steps, so
// its rate is k times the base rate (Goyal et al. 2017). The rate rises linearly from zero during the warm-up, because
// the first steps of a new model would diverge with the full rate.
#pragma once
#include <algorithm>
#include <anello/training.hpp>
#include <cstddef>

namespace anello::trainer {

inline constexpr std::size_t kReferenceBatch = 32;  // the batch that base rates are meant for

struct LearningRate {
  double base;
  std::size_t global_batch;
  std::size_t warmup_steps;

  double scaled() const { return scaled_learning_rate(base, global_batch, kReferenceBatch); }
  // `step` counts from 0 over all epochs.
  double at(std::size_t step) const {
    return scaled() * std::min(1.0, double(step + 1) / double(std::max<std::size_t>(warmup_steps, 1)));
  }
};

}  // namespace anello::trainer
