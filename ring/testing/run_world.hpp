// run_world() for tests that change the blobs that the ranks of a world exchange at the start.
#pragma once
#include <anello/testing.hpp>
#include <functional>
#include <string>
#include <vector>

namespace anello {

// Returns the blobs that `rank` gets. `blobs`: the blobs that the ranks sent. Called on that rank's thread.
using Seen = std::function<std::vector<std::string>(int rank, std::vector<std::string> blobs)>;
void run_world(int ranks, const std::function<void(World&)>& program, const Settings& settings, const Seen& seen);

}  // namespace anello
