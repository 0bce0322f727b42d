#include "trainer/sampler.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "trainer/random.hpp"

namespace anello::trainer {

std::pair<std::size_t, std::size_t> part_of(std::size_t total, int rank, int size) {
  const std::size_t even = total / std::size_t(size), over = total % std::size_t(size), r = std::size_t(rank);
  const std::size_t first = r * even + std::min(r, over);
  return {first, first + even + (r < over ? 1 : 0)};
}

Sampler::Sampler(std::size_t samples, std::size_t global_batch, std::string_view sampling, std::uint64_t seed, int rank,
                 int size)
    : samples_(samples),
      global_batch_(global_batch),
      random_(sampling == "random"),
      seed_(seed),
      rank_(rank),
      size_(size) {
  if (samples == 0 || global_batch == 0)
    throw std::invalid_argument("a sampler needs samples and a global batch, not " + std::to_string(samples) +
                                " samples in batches of " + std::to_string(global_batch));
  permutation_.resize(random_ ? 0 : samples);
}

std::size_t Sampler::steps() const {
  return (samples_ - 1) / global_batch_ + 1;
}

std::size_t Sampler::batch_size(std::size_t step) const {
  return std::min(global_batch_, samples_ - step * global_batch_);
}

void Sampler::begin_epoch(std::size_t epoch) {
  epoch_ = epoch;
  sampling::order_of_epoch(seed_, epoch, permutation_);
}

std::span<const std::uint32_t> Sampler::share(std::size_t step) {
  const auto [first, last] = part_of(batch_size(step), rank_, size_);
  if (!random_) return std::span(permutation_).subspan(step * global_batch_ + first, last - first);
  Random random(seed_, Stream::draws, epoch_ * steps() + step, std::uint64_t(rank_));
  drawn_.resize(last - first);
  for (auto& sample : drawn_) sample = std::uint32_t(random.below(samples_));
  return drawn_;
}

}  // namespace anello::trainer
