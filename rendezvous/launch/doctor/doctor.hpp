// `anello doctor`: reports problems, and the facts about this host and environment on which the engine depends. Started
// on several ranks, it joins their world, compares the hosts and measures the links between them. It shows no secret.
#pragma once
#include <iosfwd>

namespace anello::launch {

// Writes the report and returns the number of problems. In a world of several ranks, only rank 0 writes it, and any
// rank that cannot join. Blocks for about 0.3 s for each other host.
int doctor(std::ostream& out);

}  // namespace anello::launch
