// Measures calls. The calls follow each other without a pause, and each rank measures its own times. The time of an
// iteration is the time of its slowest rank. After the timed loop, the library's own allreduce combines the ranks'
// times.
#pragma once
#include <cstdint>
#include <optional>

#include "bench/collective.hpp"
#include "bench/library.hpp"
#include "bench/options.hpp"
#include "bench/statistics.hpp"

namespace anello::bench {

// Returns figures that are equal on all ranks. Takes about options.budget_ms (somewhat more on a busy machine), unless
// options.iterations is given.
Timing measure(Library& library, const Library::Call& call, const Options& options);

// Fills the input, makes the call, and counts the wrong elements of the output; does this `times` times. Returns the
// sum over all ranks, and an empty result if `times` is 0.
std::optional<std::uint64_t> check(Library& library, const Library::Call& call, Kind kind, const Tensors& tensors,
                                   Op op, int times);

}  // namespace anello::bench
