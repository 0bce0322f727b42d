// The task of an agent. It comes to the agent by standard input, which is encrypted where ssh carries it.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/launch/job.hpp"

namespace anello::launch {

// All agents of a job get this.
struct AgentTask {
  Job job;  // with what agents need of it: command, size, layout, name, secret, bind, columns, restarts,
            // master
  std::vector<std::string> addresses;  // of the launcher, numeric, the likeliest first
  std::uint16_t port = 0;
  bool by_ssh = false;                   // the agent may find the launcher's address in SSH_CONNECTION
  std::string folder;                    // the ranks' working directory
  std::vector<std::string> environment;  // "NAME=value", in addition to what the agent has
  bool separate_errors = false;          // standard error is a stream of its own
};

// The current folder, in which ranks on other hosts start as well. Throws Error{configuration} if it was removed.
std::string folder_of_ranks();

// Fills in all that does not differ between agents. The launcher listens at `port` of this host, where agents may come
// from: from loopback only if the whole job is here.
AgentTask make_task(const Job& job, const std::string& folder, std::uint16_t port);

// One line with the version of Anello, one with the number of bytes that follow, and those.
std::string encode(const AgentTask& task);

// Reads what encode() wrote, and leaves the descriptor open. Blocks until all of it is there, for at most `limit`.
// Throws Error{protocol}, Error{timed_out}, and Error{configuration} that names both versions if they differ.
AgentTask read_task(int fd, std::chrono::milliseconds limit);

}  // namespace anello::launch
