// Describes the processes that `anello run` would start, for --dry-run and --verbose. Any thread.
#pragma once
#include <string>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// Returns a text for people: the program, the variables that the launcher sets for each rank, the rank's host, and how
// other hosts are reached. Users may copy commands from it to a shell. Facts that are equal for all ranks are written
// once.
std::string describe(const Job& job);

}  // namespace anello::launch
