// A lower bound on the time of any collective on a cluster, in the simulator's model (model.hpp): the larger of two
// bounds. The first one matters for few bytes, and the second one for many bytes. Pure.
//
// Few bytes: the data of one rank must reach all ranks. A rank that has the data can send it to another rank every
// `message_us`. The other rank has the data after one latency and two `message_us`. So the number of ranks with the
// data grows as in Karp et al., "Optimal broadcast and summation in the LogP model", 1993: if a message costs as much
// time as its latency, all ranks have the data after about log2(ranks) messages.
//
// Many bytes: Patarasuk and Yuan, 2009, show that in an allreduce n ranks together must send 2(n-1) buffers and reduce
// n-1 buffers. At least one host's interface must carry its equal share of these buffers, and at least one host's cores
// must process their equal share.
#pragma once
#include "bench/simulate/cluster.hpp"
#include "ring/base/signature.hpp"

namespace anello::bench {

// Returns the microseconds until all `nodes` have the data. Each node that has the data sends a message every `gap_us`,
// and a message takes `delay_us`.
double spread_us(int nodes, double gap_us, double delay_us);

// Returns the bytes that must leave or enter the busiest host, divided by the size of the larger of a rank's two
// tensors. An allreduce counts as a reduce_scatter and an allgather, because both need data from the other hosts.
double share_of_network(Kind kind, int hosts, int ranks_per_host);

// Returns the time that the network alone takes: one latency for each doubling of the number of hosts that have the
// data, and then the time that a host's share of the bytes takes on its interface. This is an aim and not a bound,
// because the two parts can overlap. 0 on one host.
double network_aim_us(const Cluster& cluster, Kind kind, int hosts, std::uint64_t bytes);

double lower_bound_us(const Cluster& cluster, Kind kind, int world, std::uint64_t bytes);

}  // namespace anello::bench
