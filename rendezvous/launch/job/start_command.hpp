// The commands that start agents: ssh or a scheduler's own command for another host, the program itself on this host.
// Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

struct StartCommand {
  std::vector<std::string> words;
  std::vector<int> hosts;  // numbers in the layout; srun starts all agents at once
  std::string shown;       // for messages: "ssh h1"
  bool here = false;       // a child of this process
  bool step = false;       // srun, which makes a step of the job
};

// `program` is the path of this program; agents run it if it exists on their host, and otherwise the `anello` in PATH.
// `is_here` returns whether a name is this host's.
std::vector<StartCommand> start_commands(const Job& job, const std::string& program,
                                         const std::function<bool(const std::string&)>& is_here);

bool is_this_host(const std::string& name);  // "localhost", this host's name or one of its addresses
bool all_on_this_host(const Job& job);       // so that agents need only loopback

}  // namespace anello::launch
