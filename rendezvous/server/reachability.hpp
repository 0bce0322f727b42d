// Checks whether the ranks of a world can reach each other at the addresses that they gave. Pure.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

// Describes a rank whose address ranks of other hosts cannot use: a loopback address, or an address that a rank of
// another host also gave. Empty if there is no such rank.
std::string unreachable(const std::vector<Join>& ranks);

}  // namespace anello::rendezvous
