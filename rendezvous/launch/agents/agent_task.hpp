// The task of an agent. The agent reads it from standard input, which ssh encrypts.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// The part of the task that is equal for all agents of a job.
struct AgentTask {
  Job job;  // with what agents need of it: command, size, layout, name, secret, bind, columns, restarts,
            // master
  std::vector<std::string> addresses;  // where the launcher listens, numeric, the likeliest first
  std::uint16_t port = 0;
  bool by_ssh = false;                   // the agent may find the launcher's address in SSH_CONNECTION
  std::string folder;                    // the ranks' working directory
  std::vector<std::string> environment;  // "NAME=value", in addition to the agent's own
  bool separate_errors = false;          // standard error is a stream of its own
};

// Returns the current folder, in which ranks on other hosts start as well. Throws Error{configuration} if it was
// removed.
std::string folder_of_ranks();

// Makes the task for all agents of a job. The launcher listens at `port` of this host. If the whole job is on this
// host, agents reach it by loopback only.
AgentTask make_task(const Job& job, const std::string& folder, std::uint16_t port);

// Format: "version\n", "length\n", then `length` bytes.
std::string encode(const AgentTask& task);

// Reads the text that encode() wrote, and leaves the descriptor open. Blocks until all of it has arrived, for at most
// `limit`. Throws Error{protocol}, Error{timed_out}, and Error{configuration} that names both versions if they differ.
AgentTask read_task(int fd, std::chrono::milliseconds limit);

}  // namespace anello::launch
