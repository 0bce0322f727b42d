// Which ranks share a host: what algorithms of two levels, and those that follow hosts, are made from. Pure.
#pragma once
#include <span>
#include <vector>

namespace anello::algorithms {

class Hosts {
 public:
  // By rank, equal numbers for ranks of one host; of one rank at least. Hosts are in the order of their first ranks,
  // whatever their numbers, and the ranks of a host in their own order.
  explicit Hosts(std::span<const int> host_of_rank);

  int count() const { return int(begin_.size()) - 1; }
  int of(int rank) const { return host_[std::size_t(rank)]; }
  std::span<const int> ranks(int host) const {
    const auto begin = std::size_t(begin_[std::size_t(host)]), end = std::size_t(begin_[std::size_t(host) + 1]);
    return std::span(ranks_).subspan(begin, end - begin);
  }
  std::span<const int> mates(int rank) const { return ranks(of(rank)); }  // of its host, with itself
  std::span<const int> all_ranks() const { return ranks_; }               // host by host
  int max_ranks() const { return max_ranks_; }                            // of a host

 private:
  std::vector<int> host_;   // by rank
  std::vector<int> ranks_;  // host by host
  std::vector<int> begin_;  // by host, in ranks_, and their end
  int max_ranks_ = 0;
};

}  // namespace anello::algorithms
