// Assigns rank numbers when all ranks have joined. Pure.
#pragma once
#include <vector>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

// `joined` is in order of joining; entry i of the result belongs to joined[i]. A joiner with a given rank keeps it;
// given ranks must be distinct and below the size. The other joiners get the free ranks in ascending order. Hosts come
// in the order of their names, so that rank 0 is on the same host whenever a job starts again on the same hosts. Within
// a host, joiners are ordered by given local rank, then by order of joining. So the ranks of a host are contiguous if
// no ranks were given. Hosts are numbered by their lowest rank. The given local ranks of a host are kept if they are
// exactly 0 to local size - 1; otherwise its processes get local ranks in the order of their ranks.
std::vector<Assigned> assign(const std::vector<Join>& joined, std::uint32_t generation);

}  // namespace anello::rendezvous
