// `anello agent`: starts and watches the ranks of one host for a launcher on another host. The launcher starts it there
// by ssh or a scheduler; users do not start it. The agent reads its task from standard input (agent_task.hpp) and
// connects to the launcher. It sends its ranks' reports and output to the launcher, and passes the launcher's orders on
// to its keeper. If it loses the launcher, for any reason, it ends together with all processes below it.
#pragma once
#include <string>
#include <vector>

namespace anello::launch {

// `words`: the number of the agent's host in the layout. Without a number, the agent takes the host of the layout that
// has the name of this host. Returns the exit code. Throws Error.
int agent_command(const std::vector<std::string>& words, char** argv);

}  // namespace anello::launch
