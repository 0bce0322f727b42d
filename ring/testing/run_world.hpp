// run_world() for those who come between its ranks.
#pragma once
#include <anello/testing.hpp>
#include <functional>
#include <string>
#include <vector>

namespace anello {

// What a rank hears of the blobs that the ranks exchange: seen(rank, blobs). On that rank's thread.
using Seen = std::function<std::vector<std::string>(int rank, std::vector<std::string> blobs)>;
void run_world(int ranks, const std::function<void(World&)>& program, const Settings& settings, const Seen& seen);

}  // namespace anello
