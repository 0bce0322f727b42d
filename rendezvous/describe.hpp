// Ranks and hosts in words, for the messages of the roster. At most 16 are listed, then only counted. Pure.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/protocol.hpp"

namespace anello::rendezvous {

std::string describe(const Join& join);  // "rank 3 (node-b, pid 77)"
// Why two processes that want one rank cannot both be part of the world, and what to do. Both have its number.
std::string claimed_twice(const Join& first, const Join& second);
std::string seconds(std::chrono::milliseconds duration);     // "1.5 s"; to a tenth, unless it is less than 1 s
std::string present_list(const std::vector<Join>& present);  // "node-a (ranks 0, 2), node-b (1 rank)"

}  // namespace anello::rendezvous
