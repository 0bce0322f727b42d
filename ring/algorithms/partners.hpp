// Whose parts travel through which ranks, where a collective of parts goes in two levels. Each rank has a partner on
// every other host, which receives its part there, or adds up the host's contributions to it: of equal hosts the rank
// at the same place. An owner is a rank, as the one whose part it is. Pure.
#pragma once
#include <vector>

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

 private:
  const Hosts& hosts_;
  int host_, count_, place_;  // place_: of the rank on its host
};

}  // namespace anello::algorithms
