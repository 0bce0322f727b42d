// This machine as a cluster's host, measured in about two seconds over TCP, by single links and by the engine itself
// between threads. The network cannot be measured from one machine, and stays what the flags say. Beside other work it
// measures that too.
#pragma once
#include "bench/simulate/cluster.hpp"

namespace anello::bench {

// Sets message, copy, reduce, local latency and switch, so that the model gives what was measured.
// Throws what run_world throws.
void calibrate(Cluster& cluster);

}  // namespace anello::bench
