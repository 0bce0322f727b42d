// Which size of buckets is the fastest, by trying: each in turn for a few steps, so that what changes from step to step
// meets all of them. Which one is tried depends on the number of steps alone, and so is the same on all ranks. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

namespace anello {

class BucketTuner {
 public:
  explicit BucketTuner(std::uint64_t all_bytes);

  // Until enough() steps were noted.
  std::uint64_t candidate() const { return sizes_[steps_ % sizes_.size()]; }
  bool enough() const;
  void note(std::chrono::nanoseconds step);

  std::uint64_t fastest() const;

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<std::vector<std::chrono::nanoseconds>> times_;  // by size
  std::size_t steps_ = 0;
};

}  // namespace anello
