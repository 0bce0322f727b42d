// The ranks of each host, for two-level algorithms and others that depend on hosts. Pure.
#pragma once
#include <span>
#include <vector>

namespace anello::algorithms {

class Hosts {
 public:
  // `host_of_rank[r]`: any number that is equal for all ranks of a host. There must be at least one rank. Hosts get new
  // numbers, in the order of their first ranks. The ranks of a host are in ascending order.
  explicit Hosts(std::span<const int> host_of_rank);

  int count() const { return int(begin_.size()) - 1; }
  int of(int rank) const { return host_[std::size_t(rank)]; }
  std::span<const int> ranks(int host) const {
    const auto begin = std::size_t(begin_[std::size_t(host)]), end = std::size_t(begin_[std::size_t(host) + 1]);
    return std::span(ranks_).subspan(begin, end - begin);
  }
  // The ranks of the rank's host, including `rank`.
  std::span<const int> mates(int rank) const { return ranks(of(rank)); }
  std::span<const int> all_ranks() const { return ranks_; }  // ordered by host
  int max_ranks() const { return max_ranks_; }               // the maximum number of ranks on a host

 private:
  std::vector<int> host_;   // by rank
  std::vector<int> ranks_;  // ordered by host
  std::vector<int> begin_;  // by host: index of its first rank in ranks_; the last entry is the end of ranks_
  int max_ranks_ = 0;
};

}  // namespace anello::algorithms
