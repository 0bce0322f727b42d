// One operation on one pair of buffers: how long it takes, and whether it is right. Called by all ranks alike.
//
// The calls follow each other without a pause, and each rank stamps its own. What an iteration took is what its slowest
// rank took. The ranks' figures come together by the library's own allreduce, outside of the timed loop.
#pragma once
#include <cstdint>
#include <optional>

#include "bench/library.hpp"
#include "bench/options.hpp"
#include "bench/statistics.hpp"

namespace anello::bench {

// Equal on all ranks.
Timing measure(Library& library, const Library::Call& call, const Options& options);

// Fills the input, calls, and counts the output's wrong elements over all ranks, `times` times. Nothing for 0 times.
std::optional<std::uint64_t> check(Library& library, const Library::Call& call, Tensor input, ConstTensor output, Op op,
                                   int times);

}  // namespace anello::bench
