// Describes ranks and hosts for the messages of the rendezvous server. Lists at most 16 of them, and counts the rest.
// Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

std::string describe(const Join& join);  // "rank 3 (node-b, pid 77)"
// Says why two processes with the same rank cannot both be part of the world, and what to do.
std::string claimed_twice(const Join& first, const Join& second);
// If several processes of a host each started some of its ranks: describes these processes, and the likely reason.
// Empty in all other cases, also if each rank was started by its own process.
std::string started_apart(const std::vector<Join>& all);
std::string seconds(std::chrono::milliseconds duration);  // "1.5 s"; from 1 s on rounded to tenths
// The message for std::bad_alloc. It is a constant, because there may be no memory to make a text.
inline constexpr std::string_view kOutOfMemory =
    "out of memory: an allocation failed; give each rank more memory, or start fewer ranks on this host";
// Makes an Error of any exception. For std::bad_alloc, the message contains the remedy.
Error as_error(const std::exception& thrown);
std::string present_list(const std::vector<Join>& present);  // "node-a (ranks 0, 2), node-b (1 rank)"

}  // namespace anello::rendezvous
