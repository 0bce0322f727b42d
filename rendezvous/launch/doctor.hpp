// `anello doctor`: reports the facts about this host and environment that the engine depends on, and problems. It only
// reads, and shows no secret.
#pragma once
#include <iosfwd>

namespace anello::launch {

// Writes the report and returns the number of problems.
int examine(std::ostream& out);

}  // namespace anello::launch
