// `anello rendezvous`: the server for ranks that another program starts.
#pragma once
#include "rendezvous/launch/cli/command_line.hpp"

namespace anello::launch {

// Returns the exit code. Blocks until a signal ends the server; with --once, until one world has formed. Throws Error.
int rendezvous_command(const Words& words, char**);

}  // namespace anello::launch
