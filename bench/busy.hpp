// `busy`: measures a step of a few small allreduces while threads of each rank compute, as data loaders do.
#pragma once
#include <cstdint>
#include <iosfwd>

#include "bench/library.hpp"

namespace CLI {
class App;
}

namespace anello::bench {

struct BusyRequest {
  int threads = 4, nice = 5;  // computing threads of each rank, and their niceness
  int tensors = 4;            // allreduces in a step
  std::uint64_t size_bytes = 4096;
  Calls calls = Calls::blocking;
  int budget_ms = 2000;
};

void add_busy_flags(CLI::App& command, BusyRequest& request);

// All ranks call this. Rank 0 writes a comment line, and a line with the median, the 90th and the 99th percentile, and
// the maximum, in microseconds. Returns the exit code. Throws Error{unsupported} if the library does not have the
// requested kind of calls (Calls in library.hpp).
int run_busy(Library& library, const BusyRequest& request, std::ostream& out);

}  // namespace anello::bench
