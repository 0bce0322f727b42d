#include "ring/gradients/bucket_tuner.hpp"

#include <algorithm>
#include <cstddef>

#include "ring/base/check.hpp"
#include "ring/gradients/buckets.hpp"

namespace anello::gradients {
namespace {

// The first step with a size makes plans and allocates memory, so that step does not count.
constexpr std::size_t kUncounted = 1, kCounted = 5;
constexpr std::uint64_t kStep = 4;

std::chrono::nanoseconds median(std::vector<std::chrono::nanoseconds> times) {
  const auto middle = times.begin() + std::ptrdiff_t(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace

BucketTuner::BucketTuner(std::uint64_t all_bytes) {
  std::uint64_t size = kWorthwhileBucketBytes;
  for (; size < all_bytes; size *= kStep) sizes_.push_back(size);
  sizes_.push_back(size);
  times_.resize(sizes_.size());
}

bool BucketTuner::enough() const {
  return steps_ >= sizes_.size() * (kUncounted + kCounted);
}

void BucketTuner::note(std::chrono::nanoseconds step) {
  if (steps_ >= sizes_.size() * kUncounted) times_[steps_ % sizes_.size()].push_back(step);
  steps_++;
}

std::uint64_t BucketTuner::fastest() const {
  ANELLO_CHECK(enough());
  std::vector<std::chrono::nanoseconds> medians;
  for (const auto& times : times_) medians.push_back(median(times));
  return sizes_[std::size_t(std::ranges::min_element(medians) - medians.begin())];
}

}  // namespace anello::gradients
