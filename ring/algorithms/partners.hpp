// The route of each part in a two-level collective of parts. A part belongs to a rank, its owner. The owner has a
// partner on every other host. The partner receives the owner's part for its host, or adds up its host's contributions
// to the part. If hosts have equal numbers of ranks, the partner is the rank with the same index on its host. Pure.
#pragma once
#include <span>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/hosts.hpp"

namespace anello::algorithms {

class Partners {
 public:
  Partners(const Hosts& hosts, int rank);

  int of(int owner, int host) const;  // returns the owner's partner; on the owner's host, the owner itself
  int hosts() const { return count_; }
  // Returns the number of the host that comes `distance` hosts after this rank's host (host_after) or before it
  // (host_before).
  int host_after(int distance) const { return (host_ + distance) % count_; }
  int host_before(int distance) const { return (host_ + count_ - distance) % count_; }

  // Returns the ranks of `host` whose partner on this rank's host has an index in [begin, end).
  std::vector<int> owners(int host, int begin, int end) const;
  std::vector<int> owners(int host) const;  // the ranks of `host` whose partner is this rank

  // Calls lines(grid, owners), which adds steps among the ranks of this rank's host, for the parts of the ranks of
  // `host`. owners(begin, end) returns the owners of the parts that the ranks at the grid places [begin, end) handle.
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
  int host_, count_, place_;  // `place_`: index of this rank on its host
};

// The function `owners` for a grid of all ranks in which rank r owns part r. Returns begin ... end - 1.
std::vector<int> owners_in_grid(int begin, int end);

}  // namespace anello::algorithms
