// `anello run`: reads its command line, opens the rendezvous server and runs the job.
#pragma once
#include "rendezvous/launch/cli/command_line.hpp"

namespace anello::launch {

// Returns the exit code. Blocks until the job has ended. Throws Error.
int run_command(const Words& words, char** argv);

}  // namespace anello::launch
