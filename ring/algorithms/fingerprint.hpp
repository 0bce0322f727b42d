// A number for what this build's algorithms do. Ranks compare it when their world starts: two builds of one version may
// have different plans, and would only notice when an operation hangs or is wrong. Pure.
#pragma once
#include "ring/algorithms/plans.hpp"

namespace anello::algorithms {

// Of what travels in a plan and how it is combined, added to the fingerprint `before`.
std::uint64_t fingerprint_of(const Plan& plan, std::uint64_t before = 0);

// Of the plans of small operations of every kind and algorithm, and of the choice between algorithms. Computed at the
// first call.
std::uint64_t build_fingerprint();

}  // namespace anello::algorithms
