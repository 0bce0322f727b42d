// Decides which ranks run on which host: a block of consecutive ranks on each, in the order of the list, so that the
// same command gives the same places each time and rank 0 is on the first host. Pure. Any thread.
#pragma once
#include <optional>

#include "rendezvous/launch/hosts.hpp"
#include "rendezvous/launch/job.hpp"

namespace anello::launch {

struct Wanted {
  std::optional<int> ranks;     // -n; nothing: as many as there are slots
  std::optional<int> per_host;  // -N: this number on each host that is used, except the last
};

// Hosts that get no rank are left out. Where no host's slots are known, ranks are divided evenly. Throws
// Error{configuration} that names the numbers and the remedy, if there are too few slots or no host.
Layout lay_out(const Hosts& hosts, const Wanted& wanted);

}  // namespace anello::launch
