// Checks whether the ranks of a world can reach each other at the addresses that they have given. Pure.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

// Describes a rank with an address that ranks of other hosts cannot use: a loopback address, or an address that a rank
// of another host has given too. Empty if there is none.
std::string unreachable(const std::vector<Join>& ranks);

}  // namespace anello::rendezvous
