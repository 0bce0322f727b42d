// Measures this machine as a host of a cluster, over TCP, by single links and by the engine itself between threads.
// That takes about two seconds, and up to about ten on a busy machine, whose other work is then part of the figures.
// The network cannot be measured from one machine, and stays what the flags say.
#pragma once
#include "bench/simulate/cluster.hpp"

namespace anello::bench {

// Sets message, copy, reduce, local latency and switch so that the model reproduces what was measured. Blocks.
// Throws what run_world throws.
void calibrate(Cluster& cluster);

}  // namespace anello::bench
