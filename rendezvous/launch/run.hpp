// One job from start to end: the keeper and the ranks, their output and input, signals, the verdict.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "rendezvous/launch/job.hpp"

namespace anello::launch {

// Where the ranks meet.
struct RendezvousHooks {
  std::function<std::uint16_t()> open;  // returns the port on 127.0.0.1
  // As RendezvousServer::abort().
  std::function<bool(int culprit, const std::string& reason)> abort;
};

// Runs the job and returns its exit code. To be called from main, in a process of one thread, whose argv starts at
// `argv`; signals stay blocked afterwards. The meeting is opened after the processes that must not inherit its threads
// have been made. Throws Error if the job cannot be started.
int run(const Job& job, const RendezvousHooks& meeting, char** argv);

}  // namespace anello::launch
