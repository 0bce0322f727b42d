// A benchmark's stay in a world, for those that run on every rank.
#pragma once
#include <anello/init.hpp>
#include <functional>

namespace anello::bench {

// Joins, runs and finishes. What is thrown by one rank is told to the others, and thrown here. Returns what `run` does.
int in_world(const Settings& settings, const std::function<int(World&)>& run);

}  // namespace anello::bench
