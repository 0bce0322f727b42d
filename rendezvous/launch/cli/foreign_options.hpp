// Options of other launchers that their users try with `anello run`. Pure.
#pragma once
#include <string_view>

namespace anello::launch {

// Returns the option of `anello run` that replaces `option`, with its dashes: "--ssh-port", "-p". Empty if there is
// none.
std::string_view equivalent_of(std::string_view option);

}  // namespace anello::launch
