// Turns an error that keeps one rank from using its GPU into an error on all ranks, so that no rank waits for the
// failed one.
#pragma once
#include <anello/world.hpp>
#include <functional>

namespace anello::gpu {

// Collective and blocking, for a group of ranks of the world. If `attempt` throws an Error on a rank, throws
// Error{unsupported} on all ranks, with the failed rank's world rank, its host and its message.
void all_or_none(const World& world, Group& ranks, const std::function<void()>& attempt);

}  // namespace anello::gpu
