// Who plays in a simulation: ranks with their real plans, and where each of their messages goes. Pure.
//
// In the cast of a whole world that is simply every rank. In that of one host every other host does at every moment
// what this one does, so a message that leaves for another host arrives here, at the rank that stands for its receiver,
// as if from the rank that stands for its sender. That is exact for plans which are the same for all hosts but for the
// peers' numbers, as those of ring, one_shot and two_shot are when the hosts rotate: a world of 16,384 ranks then costs
// no more than one host of it. It is nearly so for halving among 2^k hosts of one rank, which mirror each other:
// messages are the same, but a rank gives away the first half or the second. (With several ranks a host it was a
// quarter too fast.) Whether plans are the same is not assumed but looked up, in the real plans of a few hosts far
// apart. The others have few messages in all: there everybody plays.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ring/algorithms/plans.hpp"

namespace anello::bench {

struct Job {
  Algorithm algorithm = Algorithm::ring;
  int world = 2, ranks_per_host = 1;  // that divides the world, or is more
  std::uint64_t count = 0, slab_elems = 0;
};

struct SimulatedRank {
  struct Target {
    std::uint32_t actor = 0, stream = 0;
    bool remote = false;  // through the network, though perhaps to the same host that stands for another
  };
  Plan plan;
  int host = 0;
  std::vector<Target> targets;  // of the plan's streams that send
};

enum class Symmetry { everybody, rotating_host, mirrored_host };

struct SimulatedRanks {
  std::vector<SimulatedRank> actors;
  int hosts = 1;  // that play
};

// Nothing if the hosts' plans differ. Where one host plays, what does not divide by the ranks is rounded up until it
// does, or no two chunks would be alike: no more than one element a rank, and for tiny counts an estimate from above.
std::optional<SimulatedRanks> cast(const Job& job, Symmetry players);

// Messages, when those longer than a part are sent in parts, and everything is `scale` times as long as it is.
double messages(const SimulatedRanks& cast, double part_elems, double scale);

}  // namespace anello::bench
