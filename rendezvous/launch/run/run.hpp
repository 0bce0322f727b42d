// Runs one job from start to end: the keeper and the ranks, their output and input, signals, and the exit code.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "rendezvous/launch/job/job.hpp"
#include "rendezvous/launch/processes/elastic_supervisor.hpp"

namespace anello::launch {

// The functions of the rendezvous server that the launcher needs.
struct RendezvousHooks {
  std::function<std::uint16_t(const Job& job)> open;  // starts the server and returns its port on 127.0.0.1
  std::function<void()> close;                        // ends the server and its thread
  // Does the same as RendezvousServer::abort().
  std::function<bool(int culprit, const std::string& reason)> abort;
  std::function<void(int rank)> exited;         // like RendezvousServer::exited()
  std::function<std::uint32_t()> newest_world;  // like ServerStats::newest
  std::function<MembershipView()> membership;   // returns the membership of an elastic job
  std::function<void(int place)> retire;        // like RendezvousServer::retire()
  std::function<void(int newcomers)> expect;    // like RendezvousServer::expect()
};

// Runs the job, and runs it again after failures if it has restarts left. Returns the exit code. Call from main(), with
// main's `argv`, while the process has one thread. Signals stay blocked afterwards. hooks.open() is called after the
// fork of the keeper, because the keeper must not inherit the server's thread. Blocks until the job has ended. Throws
// Error if the job cannot be started.
int run(const Job& job, const RendezvousHooks& hooks, char** argv);

}  // namespace anello::launch
