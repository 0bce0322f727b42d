// `anello agent`: starts and watches the ranks of one host for a launcher on another host. The launcher starts it
// there, by ssh or a scheduler; users do not. The task comes by standard input (agent_task.hpp); then the agent
// connects to the launcher, which it gives the reports and the output of its ranks, and whose orders it passes on to
// its keeper. When it has lost the launcher, for whatever reason, it and all processes below it end.
#pragma once
#include <string>
#include <vector>

namespace anello::launch {

// `words`: the number of its host in the layout; without it, the one that has this host's name. Returns the exit code.
// Throws Error.
int agent_command(const std::vector<std::string>& words, char** argv);

}  // namespace anello::launch
