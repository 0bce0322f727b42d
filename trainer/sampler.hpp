// Which samples a rank takes in each step. "shard": one permutation of all samples an epoch, from the seed and the
// epoch alone, cut into global batches and each of those into one share a rank; so every sample is used once an epoch
// and the batches are the same in a world of any size. "random": each rank draws its shares, with a seed of its own,
// from all. Either way all ranks take equally many steps; a share may be empty. One owner, one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace anello::trainer {

// [first, last) of `total` things for `rank` of `size`: contiguous, together complete, sizes differ by one at most.
std::pair<std::size_t, std::size_t> part_of(std::size_t total, int rank, int size);

class Sampler {
 public:
  Sampler(std::size_t samples, std::size_t global_batch, std::string_view sampling, std::uint64_t seed, int rank,
          int size);

  std::size_t steps() const;                               // an epoch: ceil(samples / global batch)
  std::size_t batch_size(std::size_t step) const;          // of all ranks together; the last may be smaller
  void begin_epoch(std::size_t epoch);                     // to be called before its shares are asked for
  std::span<const std::uint32_t> share(std::size_t step);  // of this rank; valid until the next call

 private:
  std::size_t samples_, global_batch_;
  bool random_;
  std::uint64_t seed_;
  int rank_, size_;
  std::size_t epoch_ = 0;
  std::vector<std::uint32_t> permutation_, drawn_;
};

}  // namespace anello::trainer
