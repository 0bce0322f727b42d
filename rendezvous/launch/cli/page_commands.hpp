// The commands that print the content of `--help` in other forms.
#pragma once
#include <vector>

#include "rendezvous/launch/cli/command_line.hpp"
#include "rendezvous/launch/cli/command_page.hpp"

namespace anello::launch {

using Pages = std::vector<CommandPage> (*)();  // pages of all commands for users, in the order of `anello --help`

int completion_command(const Words& words, Pages pages);
int manual_command(const Words& words, Pages pages);
int pages_command(const Words& words, Pages pages);  // writes all pages as files, for the installation

}  // namespace anello::launch
