// What keeps one rank from using its GPU is told to all, so that none waits for it.
#pragma once
#include <anello/world.hpp>
#include <functional>

namespace anello::gpu {

// All ranks call. Throws Error{unsupported} on all of them if `attempt` throws an Error on one, with that rank, its
// host and what it said.
void all_or_none(World& world, const std::function<void()>& attempt);

}  // namespace anello::gpu
