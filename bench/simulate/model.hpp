// What happens when a cast carries out its plans on a cluster, event by event. Pure and deterministic.
//
// A rank is one thread. It does one thing at a time, and takes from what its plan allows in Progress's order: sends,
// then the receive that is first in program order, then local work. Each thing is as much of a step as is there, a
// segment at most; while more is on its way, at least a grain. So data stream from rank to rank as in the execution,
// and whoever is late does more at a time. What m bytes take:
//   a core      message + m/copy to send; message + m/copy (+ m/reduce) to receive; (sources-1) * m/reduce to fold;
//               what is sent departs when a grain of it is copied, and no faster than the rest is
//   a host's network interface, each way on its own        m/bandwidth, first come, first served
//   on the way  latency until the first byte arrives; within a host m/local_bandwidth and local_latency
// A host's ranks share its cores: a rank keeps its core until it has nothing to do, then the rank that has waited
// longest takes it, which costs switch. Links hold whatever is sent into them. All ranks begin at once.
//
// Not in the model: congestion between interfaces, caches, headers, connecting, the noise of other work.
#pragma once
#include "bench/simulate/cast.hpp"
#include "bench/simulate/cluster.hpp"

namespace anello::bench {

struct SimulationResult {
  double us = 0;                         // until the last rank is done
  double core_share = 0, nic_share = 0;  // of that time, how long the busiest host's cores and interface were busy
};

// What a core needs for so many bytes of a step.
double core_us(const Cluster& cluster, const Step& step, double bytes);

SimulationResult play(const SimulatedRanks& cast, const Cluster& cluster, std::uint64_t elem_bytes);

}  // namespace anello::bench
