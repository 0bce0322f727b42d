// Measures this machine as a host of a cluster, over TCP: single links, and the engine itself between threads. Takes
// about two seconds, and up to about ten on a busy machine, where other work distorts the figures. One machine cannot
// measure the network between hosts, so the flags give the network's figures.
#pragma once
#include "bench/simulate/cluster.hpp"

namespace anello::bench {

// Sets message, copy, reduce, local latency and switch so that the model reproduces the measurements. Blocks. Throws
// the errors of run_world().
void calibrate(Cluster& cluster);

}  // namespace anello::bench
