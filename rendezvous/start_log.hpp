// Logs what runs where, and how, when a world has started (ANELLO_LOG=info). Any thread.
#pragma once
#include <anello/settings.hpp>
#include <anello/world.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ring/world/bootstrap.hpp"

namespace anello::rendezvous {

// One line of this rank; on rank 0 also the lines about the world. Nothing, unless such messages are logged. `address`
// is where this rank listens.
void log_start(const World& world, const Settings& settings, const std::string& address);

// "shared memory for 2 pairs of ranks, TCP for the other 4". `memories` is by rank: ranks with the same text can share
// memory, if it is not empty.
std::string describe_transport(const std::vector<std::string>& memories, const Settings& settings);

// "one_shot up to 32 KiB, two_shot above": the algorithm of an allreduce by the size of its buffer.
std::string describe_algorithms(const world::WorldMaker::Layout& layout, const Settings& settings);

}  // namespace anello::rendezvous
