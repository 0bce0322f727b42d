// The allreduce algorithms of the table in algorithms.def, one file each. Each function emits one rank's steps for one
// slab. There are at least two ranks, and a slab has at least one element. An algorithm must leave the same bits on all
// ranks. Pure.
#pragma once
#include "ring/algorithms/plans.hpp"
#include "ring/plan/plan_builder.hpp"
#include "ring/plan/slabs.hpp"

namespace anello::algorithms::allreduce {

#define ANELLO_ALGORITHM(name, ...) void name(PlanBuilder& builder, Range slab);
#include "ring/algorithms/algorithms.def"

// Calls the function of this algorithm, which must be one of the table's one-level algorithms.
void emit(Algorithm algorithm, PlanBuilder& builder, Range slab);

}  // namespace anello::algorithms::allreduce
