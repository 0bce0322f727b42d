// Measures one operation for all sizes, types and reductions of the options. All ranks call run_benchmark(); rank 0
// writes.
#pragma once
#include <iosfwd>
#include <vector>

#include "bench/collective.hpp"
#include "bench/library.hpp"
#include "bench/options.hpp"
#include "bench/report.hpp"

namespace anello::bench {

// Returns the program's exit code: 1 if any element was wrong on any rank. Throws Error{file}, before anything is
// measured, if the JSON file cannot be written.
int run_benchmark(Library& library, const Collective& collective, const Options& options, std::ostream& out);

}  // namespace anello::bench
