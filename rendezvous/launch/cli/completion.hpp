// Scripts that complete command lines of `anello` in shells. Pure.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/launch/cli/command_page.hpp"

namespace anello::launch {

std::string bash_completion(const std::vector<CommandPage>& commands);
std::string zsh_completion(const std::vector<CommandPage>& commands);

}  // namespace anello::launch
