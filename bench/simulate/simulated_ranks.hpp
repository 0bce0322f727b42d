// every_rank: every rank of the world is simulated.
// rotating_host: one host is simulated for all hosts, because at every moment every other host does the same. A message
// to another host arrives at a rank of this host instead: the rank that represents the receiver. The simulation treats
// the message as if it came from the rank that represents its sender. This is exact for plans that differ between hosts
// only in the peers' numbers, such as those of ring, one_shot and two_shot. Then a world of 16,384 ranks costs no more
// than one of its hosts. To check the plans, the real plans of a few hosts that are far apart are compared.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ring/algorithms/plans.hpp"

namespace anello::bench {

std::uint64_t up_to_multiple(std::uint64_t value, std::uint64_t of);

struct Job {
  Algorithm algorithm = Algorithm::ring;
  int world = 2, ranks_per_host = 1;  // ranks_per_host divides `world`, or is larger
  // Elements of the larger of a rank's two tensors. If the ranks have equal parts of that tensor, the count of a part
  // is rounded up.
  std::uint64_t count = 0, slab_elems = 0;
  Kind kind = Kind::allreduce;
};

// The plans of a job's ranks.
class JobPlans {
 public:
  explicit JobPlans(const Job& job);
  plan::Plan of(int rank) const;

 private:
  Job job_;
  std::optional<algorithms::Hosts> hosts_;
};

struct SimulatedRank {
  struct Target {
    std::uint32_t rank = 0, stream = 0;
    // The real receiver is on another host, so the network carries the message. A rank of the simulated host may stand
    // for that receiver (rotating_host).
    bool remote = false;
  };
  plan::Plan plan;
  int host = 0;
  std::vector<Target> targets;  // one for each sending stream of the plan
};

enum class Symmetry { every_rank, rotating_host };

struct SimulatedRanks {
  std::vector<SimulatedRank> ranks;
  int hosts = 1;  // number of simulated hosts
};

// Returns an empty result if the hosts' plans differ. If one host represents all and the plans differ, first tries
// again with `count` and `slab_elems` rounded up to multiples of the number of ranks. The rounding adds at most one
// element for each rank, so for tiny counts the result is an upper estimate.
std::optional<SimulatedRanks> simulated_ranks(const Job& job, Symmetry symmetry);

// Returns the number of messages if all lengths are `scale` times those of the plans, and messages longer than
// `part_elems` are sent in parts.
double messages(const SimulatedRanks& all, double part_elems, double scale);

}  // namespace anello::bench
