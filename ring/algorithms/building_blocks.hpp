// What several collectives are made of. Pure.
#pragma once
#include "ring/algorithms/plans.hpp"
#include "ring/plan/parts.hpp"
#include "ring/plan/plan_builder.hpp"

namespace anello::algorithms {

// Receives `mine` from every other rank, which sends it from its input, and folds all in rank order into the output.
// Two ranks need no scratch: one reduction does it.
void gather_and_fold(PlanBuilder& builder, Range mine);

// The caller's input to the output, which is no work in place.
void copy_input(PlanBuilder& builder, Range range);

Parts parts_of(const Shape& shape);

// Ranks counted from the root: it has place 0.
struct Places {
  int world, root;
  int of(int rank) const { return (rank - root + world) % world; }
  int rank_at(int place) const { return (place + root) % world; }
};

}  // namespace anello::algorithms
