// `anello rendezvous`: the server for ranks that something else starts.
#pragma once
#include "rendezvous/launch/command_line.hpp"

namespace anello::launch {

// Returns the exit code. Blocks until a signal ends it; with --once, until one world has formed. Throws Error.
int rendezvous_command(const Words& words, char**);

}  // namespace anello::launch
