// Whose parts travel through which ranks, where a collective of parts goes in two levels. A part belongs to a rank, its
// owner. Each rank has a partner on every other host, which receives the owner's part there, or adds up the host's
// contributions to it: of equal hosts the rank at the same place. Pure.
#pragma once
#include <span>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/hosts.hpp"

namespace anello::algorithms {

class Partners {
 public:
  Partners(const Hosts& hosts, int rank);

  int of(int owner, int host) const;  // the owner itself on its own host
  int hosts() const { return count_; }
  // The number of the host that is this many hosts after this rank's, or before it.
  int host_after(int distance) const { return (host_ + distance) % count_; }
  int host_before(int distance) const { return (host_ + count_ - distance) % count_; }

  // Of the owners on a host: those whose partners on this rank's host have places from `begin` up to `end` there.
  std::vector<int> owners(int host, int begin, int end) const;
  std::vector<int> owners(int host) const;  // those whose partner is this rank

  // Among the ranks of this rank's host, for the parts of a host's ranks: calls lines(grid, owners), where
  // owners(begin, end) are those whose parts the ranks at these places of the grid have.
  template <class Lines>
  void within_host(PlanBuilder& builder, int host, Lines lines) const {
    constexpr int kMaxLine = 2;
    const std::span<const int> mates = hosts_.ranks(host_);
    builder.among(mates, Space::input, [&] {
      lines(Grid(int(mates.size()), kMaxLine), [&](int begin, int end) { return owners(host, begin, end); });
    });
  }

 private:
  const Hosts& hosts_;
  int host_, count_, place_;  // place_: of the rank on its host
};

// Of a grid of all ranks, where each has its own part.
std::vector<int> owners_in_grid(int begin, int end);

}  // namespace anello::algorithms
