// One job from start to end: the keeper and the ranks, their output and input, signals, the verdict.
#pragma once
#include <cstdint>
#include <functional>

#include "rendezvous/launch/job.hpp"

namespace anello::launch {

// Runs the job and returns its exit code. To be called from main, in a process of one thread, whose argv starts at
// `argv`; signals stay blocked afterwards. `serve` starts what ranks meet at, after the processes that must not inherit
// its threads have been made, and returns the port on 127.0.0.1. Throws Error if the job cannot be started.
int run(const Job& job, const std::function<std::uint16_t()>& serve, char** argv);

}  // namespace anello::launch
