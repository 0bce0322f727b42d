// Finds the fastest bucket size by trying. Each step uses another size, so that disturbances affect all sizes equally.
// A step's size depends only on the number of earlier steps, so it is the same on all ranks. Owned by Gradients. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

namespace anello::gradients {

class BucketTuner {
 public:
  // Tries sizes from 256 KiB up to the first size that holds all gradients.
  explicit BucketTuner(std::uint64_t all_bytes);

  // Returns the size for the next step. Call only until enough() is true.
  std::uint64_t candidate() const { return sizes_[steps_ % sizes_.size()]; }
  bool enough() const;
  // Records how long the step with candidate() took.
  void note(std::chrono::nanoseconds step);

  // Returns the size with the smallest median time. Call only after enough() is true.
  std::uint64_t fastest() const;

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<std::vector<std::chrono::nanoseconds>> times_;  // by size
  std::size_t steps_ = 0;
};

}  // namespace anello::gradients
