// `anello status`, `anello resize` and `anello remove`: requests to an elastic job that runs on this host.
#pragma once
#include "rendezvous/launch/cli/command_line.hpp"

namespace anello::launch {

int status_command(const Words& words, char** argv);
int resize_command(const Words& words, char** argv);
int remove_command(const Words& words, char** argv);

}  // namespace anello::launch
