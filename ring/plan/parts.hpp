// The division of a buffer among the ranks. The parts are contiguous and in rank order.
#pragma once
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "ring/plan/plan.hpp"

namespace anello::plan {

class Parts {
 public:
  // `counts`: elements of each rank's part; if it is empty, every part has `each` elements.
  Parts(int world, std::uint64_t each, std::span<const std::uint64_t> counts) : ends_(std::size_t(world), each) {
    if (!counts.empty()) ends_.assign(counts.begin(), counts.end());
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  }

  Range of(int rank) const {
    const std::uint64_t begin = rank == 0 ? 0 : ends_[std::size_t(rank) - 1];
    return {begin, ends_[std::size_t(rank)] - begin};
  }
  std::uint64_t whole() const { return ends_.back(); }
  std::uint64_t largest() const {
    std::uint64_t max_count = 0;
    for (int rank = 0; rank < int(ends_.size()); rank++) max_count = std::max(max_count, of(rank).count);
    return max_count;
  }

 private:
  std::vector<std::uint64_t> ends_;
};

}  // namespace anello::plan
