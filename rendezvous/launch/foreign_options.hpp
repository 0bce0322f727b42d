// Options of other launchers that users of those try with `anello run`. Pure.
#pragma once
#include <string_view>

namespace anello::launch {

// The option to write here in place of `option`, with its dashes: "--ssh-port", "-p". Empty if it is not known.
std::string_view equivalent_of(std::string_view option);

}  // namespace anello::launch
