// What this host and this environment look like to the engine, for a person who looks for a reason. Reads, changes
// nothing, shows no secret.
#pragma once
#include <iosfwd>

namespace anello::launch {

// Writes the report; the number of problems found.
int examine(std::ostream& out);

}  // namespace anello::launch
