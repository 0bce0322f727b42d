// Options of other launchers, which users of these launchers try with `anello run`. Pure.
#pragma once
#include <string_view>

namespace anello::launch {

// Returns how to replace `option`, which has its dashes ("--ssh-port", "-p"). Empty if the option is not in the table.
std::string_view equivalent_of(std::string_view option);

}  // namespace anello::launch
