// The commands that start agents. On another host, ssh or a scheduler's own command starts the agent. On this host, the
// command runs this program as the agent. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

struct StartCommand {
  std::vector<std::string> words;
  std::vector<int> hosts;  // where the command starts agents, as numbers in the layout: one host, or with srun all
  std::string shown;       // the command for messages, such as "ssh h1"
  bool here = false;       // true if the agent is started as a child of this process
  bool step = false;       // true if the command is srun, which makes a step of the job
};

// `program`: the path of this program. If this file exists on an agent's host, the command runs it there; otherwise it
// runs the `anello` in PATH. `is_here`: returns true if a name is this host's. start_command() returns the command for
// the agent of one host, which has this number in the layout.
StartCommand start_command(const Job& job, int number, const std::string& program,
                           const std::function<bool(const std::string&)>& is_here);
std::vector<StartCommand> start_commands(const Job& job, const std::string& program,
                                         const std::function<bool(const std::string&)>& is_here);

bool is_this_host(const std::string& name);  // "localhost", this host's name or one of its addresses
bool all_on_this_host(const Job& job);       // true if the whole job is on this host; then agents need only loopback

}  // namespace anello::launch
