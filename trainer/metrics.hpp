// Sums over samples, and their averages: for this rank, and after over_ranks() for all ranks. In averages over all
// ranks, a rank with more samples has more weight.
#pragma once
#include <anello/world.hpp>
#include <array>

#include "trainer/backend.hpp"

namespace anello::trainer {

struct Metrics {
  double loss_sum = 0, correct = 0, samples = 0;
  double seconds = 0, exposed_seconds = 0, hidden_seconds = 0, steps = 0;  // over_ranks() also adds these up

  void add(const Score& score, std::size_t of_samples) {
    loss_sum += score.loss;
    correct += double(score.correct);
    samples += double(of_samples);
  }
  double loss() const { return loss_sum / samples; }
  double accuracy() const { return correct / samples; }
  double exposed_share() const { return exposed_seconds / seconds; }

  using Sums = std::array<double, 7>;  // all members, as they are sent or saved
  Sums sums() const { return {loss_sum, correct, samples, seconds, exposed_seconds, hidden_seconds, steps}; }
  static Metrics of(const Sums& sums) { return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]}; }

  Metrics over_ranks(World& world) const {
    Sums all = sums();
    world.allreduce(all, Op::sum, {.name = "metrics"});
    return of(all);
  }
};

}  // namespace anello::trainer
