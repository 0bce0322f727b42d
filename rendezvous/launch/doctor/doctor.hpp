// `anello doctor`: reports problems, and the facts about this host and environment on which the engine depends. If it
// is started on several ranks, the ranks join their world, compare the hosts, and measure the links between the hosts.
// Shows no secret.
#pragma once
#include <iosfwd>

namespace anello::launch {

// Writes the report and returns the number of problems. In a world of several ranks, only rank 0 writes a report; a
// rank that cannot join writes its own report. Blocks for about 0.3 s for each other host.
int doctor(std::ostream& out);

}  // namespace anello::launch
