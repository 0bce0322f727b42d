// Who gets which number, once all have joined. Pure.
#pragma once
#include <vector>

#include "rendezvous/protocol.hpp"

namespace anello::rendezvous {

// Entry i belongs to joined[i], in order of joining. Given ranks are honoured (they are distinct and below the size);
// the free ones go, ascending, to the others: host by host in order of their first member, on each by given local
// rank, then in order of joining. So the ranks of a host are contiguous unless given otherwise.
// Hosts are numbered by their lowest rank. Local ranks are as given if a host's are all given and are 0..local size-1,
// else in order of rank.
std::vector<Assigned> assign(const std::vector<Join>& joined, std::uint32_t generation);

}  // namespace anello::rendezvous
