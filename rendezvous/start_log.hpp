// When a world has started, logs where its ranks run and how they communicate (ANELLO_LOG=info). Any thread.
#pragma once
#include <anello/settings.hpp>
#include <anello/world.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ring/world/bootstrap.hpp"

namespace anello::rendezvous {

// Logs one line about this rank; rank 0 also logs the lines about the world. Does nothing unless ANELLO_LOG includes
// these messages. `address`: where this rank listens.
void log_start(const World& world, const Settings& settings, const std::string& address);

// Returns a text such as "shared memory for 2 pairs of ranks, TCP for the other 4". `memories`: by rank; ranks with
// equal texts that are not empty can share memory.
std::string describe_transport(const std::vector<std::string>& memories, const Settings& settings);

// Returns a text such as "one_shot up to 32 KiB, two_shot above": the algorithm of an allreduce for each size of its
// buffer.
std::string describe_algorithms(const world::WorldMaker::Layout& layout, const Settings& settings);

}  // namespace anello::rendezvous
