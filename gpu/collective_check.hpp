// What keeps one rank from using its GPU becomes an error on all ranks, so that none waits for it.
#pragma once
#include <anello/world.hpp>
#include <functional>

namespace anello::gpu {

// Collective and blocking, of a group of the world. If `attempt` throws an Error on one rank, throws Error{unsupported}
// on all ranks, with that rank's number in the world, its host and its message.
void all_or_none(const World& world, Group& ranks, const std::function<void()>& attempt);

}  // namespace anello::gpu
