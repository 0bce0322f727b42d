// Ranks and hosts in words, for the messages of the roster. At most 16 are listed, then only counted. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol.hpp"

namespace anello::rendezvous {

std::string describe(const Join& join);  // "rank 3 (node-b, pid 77)"
// Why two processes that want one rank cannot both be part of the world, and what to do. Both have its number.
std::string claimed_twice(const Join& first, const Join& second);
// If several processes of a host each started several ranks there, or some of them: which, and what that may mean.
// Otherwise, also if each rank was started by a process of its own: empty.
std::string started_apart(const std::vector<Join>& all);
std::string seconds(std::chrono::milliseconds duration);  // "1.5 s"; to a tenth, unless it is less than 1 s
// For std::bad_alloc, also where no memory is left for a message of its own.
inline constexpr std::string_view kOutOfMemory =
    "out of memory: an allocation failed; give each rank more memory, or start fewer ranks on this host";
// Makes an Error of any exception. If memory was lacking, its message says what to do.
Error as_error(const std::exception& thrown);
std::string present_list(const std::vector<Join>& present);  // "node-a (ranks 0, 2), node-b (1 rank)"

}  // namespace anello::rendezvous
