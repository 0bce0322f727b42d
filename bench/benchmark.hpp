// One run of one operation over all sizes, types and reductions asked for. Called by all ranks alike; rank 0 writes.
#pragma once
#include <iosfwd>
#include <vector>

#include "bench/collective.hpp"
#include "bench/options.hpp"
#include "bench/report.hpp"

namespace anello::bench {

// Returns the program's exit code: 1 if any element was wrong, on whatever rank. Throws Error{file} if the JSON file
// cannot be written, before anything is measured.
int run_benchmark(Library& library, const Collective& collective, const Options& options, std::ostream& out);

}  // namespace anello::bench
