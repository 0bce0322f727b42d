// Decides which ranks run on which host. Each host of the list gets the next block of consecutive ranks. So the same
// command always gives the same places, and rank 0 is on the first host. Pure. Any thread.
#pragma once
#include <optional>

#include "rendezvous/launch/job/hosts.hpp"
#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

struct Wanted {
  std::optional<int> ranks;     // -n; nothing: one rank for each slot
  std::optional<int> per_host;  // -N: the number of ranks on each host that is used, except the last host
  bool or_fewer = false;        // if there are fewer slots than wanted ranks, each slot gets one rank
};

// Leaves out hosts that get no rank. If no host has a given number of slots, divides the ranks evenly. If there are too
// few slots or no host, throws Error{configuration} that names the numbers and the remedy.
Layout lay_out(const Hosts& hosts, const Wanted& wanted);

}  // namespace anello::launch
