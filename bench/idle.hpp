// `idle`: measures what a rank costs beside the time of its operations: the processor time of a world that has nothing
// to do and of ranks that wait for a late one; memory, descriptors and threads; context switches of small allreduces.
#pragma once
#include <iosfwd>

#include "bench/library.hpp"

namespace CLI {
class App;
}

namespace anello::bench {

struct IdleRequest {
  int idle_ms = 2000, late_ms = 1000;  // how long no rank calls anything; how late the last rank is
  int operations = 1000;               // allreduces of each size whose context switches are counted
  Calls calls = Calls::blocking;
};

void add_idle_flags(CLI::App& command, IdleRequest& request);

// All ranks call this. Rank 0 writes comment lines, and a line of means over the ranks. Returns the exit code. Throws
// Error{unsupported} if the library does not have the requested kind of calls, and for a world of one rank.
int run_idle(Library& library, const IdleRequest& request, std::ostream& out);

}  // namespace anello::bench
