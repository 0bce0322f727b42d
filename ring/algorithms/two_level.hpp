// An allreduce in two levels, the rows ANELLO_LEVELS of algorithms.def, one after the other. Each emits one slab's
// steps for one rank; a slab has at least one element. Pure.
#pragma once
#include "ring/algorithms/hosts.hpp"
#include "ring/algorithms/plans.hpp"
#include "ring/plan/plan_builder.hpp"

namespace anello::algorithms::allreduce {

// One after another: the sums of each host; what can be added between hosts before results are sent, if the algorithm
// there has such a half; the rest.
void add_within_hosts(Algorithm algorithm, PlanBuilder& builder, Range slab, const Hosts& hosts);
void add_between_hosts(Algorithm algorithm, PlanBuilder& builder, Range slab, const Hosts& hosts);
void send_results(Algorithm algorithm, PlanBuilder& builder, Range slab, const Hosts& hosts);

}  // namespace anello::algorithms::allreduce
