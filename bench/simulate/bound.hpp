// What no allreduce on a cluster can beat, in the simulator's model: the larger of what few and what many bytes cost.
// Pure.
//
// Few: what one rank has must reach all. Whoever knows it can tell another each `message`, who knows it latency and two
// messages later; the count of who knows grows as in Karp et al., "Optimal broadcast and summation in the LogP model",
// 1993 (about log2(ranks) deep when a message costs as much as its way). Many: Patarasuk and Yuan, 2009, show that
// 2(n-1) buffers must be sent by n ranks in all, and n-1 reduced; so some host's interface, and some host's cores, have
// their share of it.
#pragma once
#include "bench/simulate/cluster.hpp"

namespace anello::bench {

// Microseconds until `nodes` know, when each tells another every `gap_us` and that takes `delay_us`.
double spread_us(int nodes, double gap_us, double delay_us);

double lower_bound_us(const Cluster& cluster, int world, std::uint64_t bytes);

}  // namespace anello::bench
