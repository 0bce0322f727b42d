// `anello doctor`: reports the facts about this host and environment that the engine depends on, and problems. Started
// on several ranks, it joins their world, compares the hosts and measures the links between them. It shows no secret.
#pragma once
#include <iosfwd>

namespace anello::launch {

// Writes the report and returns the number of problems. In a world of several ranks only rank 0 writes it, except for a
// rank that cannot join. Blocks, for about 0.3 s for each other host.
int doctor(std::ostream& out);

}  // namespace anello::launch
