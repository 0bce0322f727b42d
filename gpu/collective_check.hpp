// What keeps one rank from using its GPU becomes an error on all ranks, so that none waits for it.
#pragma once
#include <anello/world.hpp>
#include <functional>

namespace anello::gpu {

// Collective and blocking. If `attempt` throws an Error on one rank, throws Error{unsupported} on all ranks, with that
// rank, its host and its message.
void all_or_none(World& world, const std::function<void()>& attempt);

}  // namespace anello::gpu
