// A lower bound on the time of any collective on a cluster, in the simulator's model: the larger of the bounds for few
// and for many bytes. Pure.
//
// Few bytes: the data of one rank must reach all ranks. A rank that has the data can send them to another rank every
// `message`; that rank has them `latency` and two `message` later. So the number of ranks with the data grows as in
// Karp et al., "Optimal broadcast and summation in the LogP model", 1993 (about log2(ranks) deep if a message costs as
// much time as its latency). Many bytes: Patarasuk and Yuan, 2009, show that n ranks together must send 2(n-1) buffers
// and reduce n-1 in an allreduce; at least one host's interface, and one host's cores, have their share of that.
#pragma once
#include "bench/simulate/cluster.hpp"
#include "ring/base/signature.hpp"

namespace anello::bench {

// Microseconds until all `nodes` have the data, if each node that has them sends a message every `gap_us`, and a
// message takes `delay_us`.
double spread_us(int nodes, double gap_us, double delay_us);

// The bytes that must leave or enter the busiest of equal hosts, divided by the size of the larger of a rank's two
// tensors. An allreduce is a reduce_scatter and an allgather, which both need data from the other hosts.
double share_of_network(Kind kind, int hosts, int ranks_per_host);

// The time of the network alone: one latency for each doubling of the number of hosts that have the data, and then the
// host's share of the bytes through its interface. An aim and not a bound, because the two can overlap. 0 on one host.
double network_aim_us(const Cluster& cluster, Kind kind, int hosts, std::uint64_t bytes);

double lower_bound_us(const Cluster& cluster, Kind kind, int world, std::uint64_t bytes);

}  // namespace anello::bench
