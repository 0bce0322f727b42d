// The learning rate of each step. A batch that is k times larger has less noise, and an epoch then has k times fewer
// steps, so the rate is k times the base rate (Goyal et al. 2017). The rate rises linearly from zero during the
// warm-up, because a new model would diverge if its first steps had the full rate.
#pragma once
#include <algorithm>
#include <anello/training.hpp>
#include <cstddef>

namespace anello::trainer {

inline constexpr std::size_t kReferenceBatch = 32;  // the batch for which base rates are given

struct LearningRate {
  double base;
  std::size_t global_batch;
  std::size_t warmup_steps;

  double scaled() const { return scaled_learning_rate(base, global_batch, kReferenceBatch); }
  // `step`: number of earlier steps in all epochs.
  double at(std::size_t step) const {
    return scaled() * std::min(1.0, double(step + 1) / double(std::max<std::size_t>(warmup_steps, 1)));
  }
};

}  // namespace anello::trainer
