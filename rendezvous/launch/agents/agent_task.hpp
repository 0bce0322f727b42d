// The task of an agent. The agent reads the task from standard input, which ssh encrypts.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// The part of the task that is equal for all agents of a job.
struct AgentTask {
  // Only these members of the job are set, which agents need: command, size, layout, name, secret, bind, columns,
  // restarts, master, and whether it is elastic.
  Job job;
  std::vector<std::string> addresses;  // numeric addresses at which the launcher listens, the likeliest first
  std::uint16_t port = 0;
  bool by_ssh = false;                   // true if SSH_CONNECTION may have the launcher's address
  std::string folder;                    // the ranks' working directory
  std::vector<std::string> environment;  // "NAME=value", in addition to the agent's own
  bool separate_errors = false;          // true if standard error is a separate stream
};

// Returns the current folder. Ranks on other hosts start in a folder of the same name. Throws Error{configuration} if
// the folder was removed.
std::string folder_of_ranks();

// Makes the task for all agents of a job. The launcher listens at `port` of this host. If the whole job is on this
// host, agents use only loopback to reach it.
AgentTask make_task(const Job& job, const std::string& folder, std::uint16_t port);

// Format: "version\n", "length\n", then `length` bytes.
std::string encode(const AgentTask& task);

// Reads the text that encode() made. Does not close the descriptor. Blocks until the whole text has arrived, for at
// most `limit`. Throws Error{protocol} and Error{timed_out}. If the versions of launcher and agent differ, throws
// Error{configuration} that names both.
AgentTask read_task(int fd, std::chrono::milliseconds limit);

}  // namespace anello::launch
