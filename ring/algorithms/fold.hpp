// The step that rank order is made of: one rank has everybody's contribution and adds them up from the lowest.
#pragma once
#include "ring/plan/plan_builder.hpp"

namespace anello {

// Receives everybody's `mine`, which each of them sends from its input, and folds them in rank order into the output.
// Two ranks need no scratch: one reduction is all there is.
void gather_and_fold(PlanBuilder& builder, Range mine);

}  // namespace anello
