// A lower bound on the time of any allreduce on a cluster, in the simulator's model: the larger of the bounds for few
// and for many bytes. Pure.
//
// Few bytes: the data of one rank must reach all ranks. A rank that has them can send them to another each `message`,
// and that one has them `latency` and two `message` later. So the number of ranks that have them grows as in Karp et
// al., "Optimal broadcast and summation in the LogP model", 1993 (about log2(ranks) deep if a message costs as much
// time as its latency). Many bytes: Patarasuk and Yuan, 2009, show that n ranks together must send 2(n-1) buffers and
// reduce n-1; at least one host's interface, and one host's cores, have their share of that.
#pragma once
#include "bench/simulate/cluster.hpp"

namespace anello::bench {

// Microseconds until all `nodes` have the data, if each one that has them sends them every `gap_us`, and a message
// takes `delay_us`.
double spread_us(int nodes, double gap_us, double delay_us);

// What the network alone takes: the doublings of what is known, one latency each, and then 2(hosts-1)/hosts of the
// bytes through a host's interface. An aim rather than a bound: the two can overlap. 0 on one host.
double network_aim_us(const Cluster& cluster, int hosts, std::uint64_t bytes);

double lower_bound_us(const Cluster& cluster, int world, std::uint64_t bytes);

}  // namespace anello::bench
