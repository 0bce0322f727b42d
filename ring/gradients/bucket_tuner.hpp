// Finds the fastest size of buckets by trying. Sizes take turns, step by step, so that disturbances affect all of them
// alike. The size of a step depends only on the number of steps before it, and so is the same on all ranks. Owned by
// Gradients. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

namespace anello::gradients {

class BucketTuner {
 public:
  // Tries sizes from 256 KiB up to the first that holds all gradients.
  explicit BucketTuner(std::uint64_t all_bytes);

  // The size for the next step, until enough() steps were noted.
  std::uint64_t candidate() const { return sizes_[steps_ % sizes_.size()]; }
  bool enough() const;
  // How long the step with candidate() took.
  void note(std::chrono::nanoseconds step);

  // The size with the smallest median. Only after enough().
  std::uint64_t fastest() const;

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<std::vector<std::chrono::nanoseconds>> times_;  // by size
  std::size_t steps_ = 0;
};

}  // namespace anello::gradients
