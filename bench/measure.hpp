// Measures and checks one operation on one pair of buffers. All ranks call.
//
// The calls follow each other without a pause, and each rank takes the time of its own. The time of an iteration is
// that of its slowest rank. The library's own allreduce combines the ranks' times, outside of the timed loop.
#pragma once
#include <cstdint>
#include <optional>

#include "bench/collective.hpp"
#include "bench/library.hpp"
#include "bench/options.hpp"
#include "bench/statistics.hpp"

namespace anello::bench {

// The same on all ranks. Takes about options.budget_ms unless options.iterations is given; on a busy machine somewhat
// more.
Timing measure(Library& library, const Library::Call& call, const Options& options);

// `times` times, fills the input, calls, and counts wrong elements of the output. Returns the sum over all ranks;
// nothing for 0 times.
std::optional<std::uint64_t> check(Library& library, const Library::Call& call, Kind kind, const Tensors& tensors,
                                   Op op, int times);

}  // namespace anello::bench
