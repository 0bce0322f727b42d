// Sums over samples, and their averages: for this rank, and after over_ranks() for all ranks. In averages over all
// ranks, a rank with more samples has more weight.
#pragma once
#include <anello/world.hpp>
#include <array>
#include <cstdint>
#include <span>

#include "trainer/backend.hpp"
#include "trainer/hash.hpp"

namespace anello::trainer {

struct Metrics {
  double loss_sum = 0, correct = 0, samples = 0;
  double seconds = 0, exposed_seconds = 0, hidden_seconds = 0, steps = 0;  // over_ranks() also adds these up
  // The sum of a hash of each (epoch, step, sample), modulo 2^64. It is equal in trainings that have used the same
  // samples in the same steps, on any number of ranks.
  std::uint64_t samples_hash = 0;

  void add(const Score& score, std::size_t of_samples) {
    loss_sum += score.loss;
    correct += double(score.correct);
    samples += double(of_samples);
  }
  void add_used(std::uint64_t epoch, std::uint64_t step, std::span<const std::uint32_t> share) {
    for (const std::uint32_t sample : share) {
      const std::uint64_t words[] = {epoch, step, sample, epoch, step, sample};  // twice, to mix them thoroughly
      samples_hash += hash64(std::as_bytes(std::span(words)));
    }
  }
  void add(const Metrics& more) {
    const Sums own = sums(), its = more.sums();
    Sums all{};
    for (std::size_t i = 0; i < all.size(); i++) all[i] = own[i] + its[i];
    *this = of(all);
  }
  double loss() const { return loss_sum / samples; }
  double accuracy() const { return correct / samples; }
  double exposed_share() const { return exposed_seconds / seconds; }

  using Sums = std::array<double, 9>;  // all members, as they are sent or saved; the hash is in two halves
  Sums sums() const {
    return {loss_sum,       correct, samples,           seconds,           exposed_seconds,
            hidden_seconds, steps,   low(samples_hash), high(samples_hash)};
  }
  static Metrics of(const Sums& sums) {
    return {sums[0], sums[1], sums[2], sums[3],
            sums[4], sums[5], sums[6], std::uint64_t(sums[7]) + (std::uint64_t(sums[8]) << 32)};
  }

  Metrics over_ranks(World& world) const {
    Sums all = sums();
    world.allreduce(all, Op::sum, {.name = "metrics"});
    return of(all);
  }

 private:
  // Half of a hash. Sums of such halves over up to 2^21 ranks are exact in a double.
  static double low(std::uint64_t hash) { return double(hash & 0xffffffff); }
  static double high(std::uint64_t hash) { return double(hash >> 32); }
};

}  // namespace anello::trainer
