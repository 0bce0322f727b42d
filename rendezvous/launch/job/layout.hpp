// Decides which ranks run on which host: each host of the list gets the next block of consecutive ranks, so that the
// same command gives the same places each time and rank 0 is on the first host. Pure. Any thread.
#pragma once
#include <optional>

#include "rendezvous/launch/job/hosts.hpp"
#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

struct Wanted {
  std::optional<int> ranks;     // -n; nothing: as many as there are slots
  std::optional<int> per_host;  // -N: this number on each host that is used, except the last
};

// Leaves out hosts that get no rank. If no host has a given number of slots, divides the ranks evenly. Throws
// Error{configuration} that names the numbers and the remedy, if there are too few slots or no host.
Layout lay_out(const Hosts& hosts, const Wanted& wanted);

}  // namespace anello::launch
