// An allreduce in two levels, by the ANELLO_LEVELS rows of algorithms.def. Pure.
#pragma once
#include "ring/algorithms/hosts.hpp"
#include "ring/algorithms/plans.hpp"
#include "ring/plan/plan_builder.hpp"

namespace anello::algorithms::allreduce {

// Writes one rank's steps for all slabs of [0, count). slab_elems 0: there is one slab.
void in_two_levels(Algorithm algorithm, PlanBuilder& builder, std::uint64_t count, std::uint64_t slab_elems,
                   const Hosts& hosts);

}  // namespace anello::algorithms::allreduce
