// A fingerprint of this build's algorithms. Ranks compare their fingerprints when their world starts. Two builds of one
// version may make different plans; without this check, the difference would be noticed only when an operation hangs or
// has a wrong result. Pure.
#pragma once
#include "ring/algorithms/plans.hpp"

namespace anello::algorithms {

// Extends the fingerprint `before` by the plan's messages and reductions.
std::uint64_t fingerprint_of(const Plan& plan, std::uint64_t before = 0);

// Returns the fingerprint of small plans of every kind and algorithm, and of the choice between algorithms. Computed at
// the first call.
std::uint64_t build_fingerprint();

}  // namespace anello::algorithms
