// Describes the processes that `anello run` would start, for --dry-run and --verbose. Any thread.
#pragma once
#include <string>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// Returns a text for people. They may copy from it to a shell: the program, the variables that the launcher sets for
// each rank, its host, and how other hosts are reached. Facts that are equal for all ranks are written once.
std::string describe(const Job& job);

}  // namespace anello::launch
