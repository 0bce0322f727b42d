// Chooses the samples that a rank takes in each step. "shard": each epoch has one permutation of all samples, made from
// the seed and the epoch alone. It is divided into global batches, and each batch into one share for each rank. So
// every sample is used once in an epoch, and the batches are the same on any number of ranks. "random": each rank draws
// its shares from all samples, with its own seed. In both cases all ranks take the same number of steps; a share may be
// empty. One thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace anello::trainer {

// Returns the range [first, last) of `total` items that `rank` gets. The ranges of all `size` ranks are contiguous and
// cover all items; their sizes differ by at most one.
std::pair<std::size_t, std::size_t> part_of(std::size_t total, int rank, int size);

class Sampler {
 public:
  // Throws std::invalid_argument if there are no samples or the batch is empty.
  Sampler(std::size_t samples, std::size_t global_batch, std::string_view sampling, std::uint64_t seed, int rank,
          int size);

  std::size_t steps() const;                       // steps of an epoch: ceil(samples / global_batch)
  std::size_t batch_size(std::size_t step) const;  // samples of all ranks together; the last batch may be smaller
  void begin_epoch(std::size_t epoch);             // call this before share()
  std::span<const std::uint32_t> share(std::size_t step);  // samples of this rank; valid until the next call

 private:
  std::size_t samples_, global_batch_;
  bool random_;
  std::uint64_t seed_;
  int rank_, size_;
  std::size_t epoch_ = 0;
  std::vector<std::uint32_t> permutation_, drawn_;
};

}  // namespace anello::trainer
