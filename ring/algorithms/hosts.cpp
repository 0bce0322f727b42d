#include "ring/algorithms/hosts.hpp"

#include <algorithm>

namespace anello::algorithms {

Hosts::Hosts(std::span<const int> host_of_rank) : ranks_(host_of_rank.size()), begin_{0} {
  const int max_given = *std::ranges::max_element(host_of_rank);
  // `number`: a host's new number, by given number; `sizes`: by new number.
  std::vector<int> number(std::size_t(max_given) + 1, -1), sizes;
  for (const int given : host_of_rank) {
    int& host = number.at(std::size_t(given));
    if (host < 0) {
      host = int(sizes.size());
      sizes.push_back(0);
    }
    host_.push_back(host);
    sizes[std::size_t(host)]++;
  }
  for (const int size : sizes) {
    begin_.push_back(begin_.back() + size);
    max_ranks_ = std::max(max_ranks_, size);
  }
  std::vector<int> next = begin_;
  for (int rank = 0; rank < int(host_.size()); rank++)
    ranks_[std::size_t(next[std::size_t(host_[std::size_t(rank)])]++)] = rank;
}

}  // namespace anello::algorithms
