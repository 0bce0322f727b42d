// Simulates how ranks carry out their plans on a cluster, event by event. Pure and deterministic.
//
// A rank is one thread. It does one thing at a time, in the order of the engine's Driver (ring/run/driver.hpp): first
// sends, then the receive that is first in program order, then local work. It does as much of a step at once as
// possible: at most a segment, and at least a grain while more data is on its way. So data flows from rank to rank as
// in the engine, and a rank that is late processes larger pieces. The time for m bytes:
//   a core      message + m/copy to send; message + m/copy (+ m/reduce) to receive, without m/copy if it reduces what
//               came through memory; (sources-1) * m/reduce to fold;
//               data depart when the first grain is copied, and no faster than the rest is copied
//   a host's network interface, each direction by itself   m/bandwidth, in the order of arrival
//   on the way  latency until the first byte arrives; within a host m/local_bandwidth and local_latency
// A host's ranks share its cores: a rank keeps its core until it has nothing to do; then the rank that has waited
// longest takes the core, which costs `switch`. Links have unlimited buffers. All ranks begin at the same time.
//
// Not in the model: congestion between interfaces, caches, headers, connecting, and other work on the machines.
#pragma once
#include "bench/simulate/cluster.hpp"
#include "bench/simulate/simulated_ranks.hpp"

namespace anello::bench {

struct SimulationResult {
  double us = 0;                         // time until the last rank has finished
  double core_share = 0, nic_share = 0;  // share of `us` in which the busiest host's cores or interface worked
};

// The time that a core needs for `bytes` of a step of this plan.
double core_us(const Cluster& cluster, const plan::Plan& plan, const plan::Step& step, double bytes);

SimulationResult simulate(const SimulatedRanks& ranks, const Cluster& cluster, std::uint64_t elem_bytes);

}  // namespace anello::bench
