// Manual pages, for man(1). Pure.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/launch/cli/command_page.hpp"

namespace anello::launch {

std::string manual_page(const CommandPage& command);                    // anello-run(1)
std::string manual_overview(const std::vector<CommandPage>& commands);  // anello(1)

}  // namespace anello::launch
