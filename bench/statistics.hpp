// From the stamps of one timed loop to the figures that are reported. Pure.
#pragma once
#include <span>
#include <vector>

namespace anello::bench {

// Microseconds.
struct Timing {
  double p50_us = 0, p99_us = 0;  // over iterations, of each iteration's slowest rank
  double mean_us = 0;             // wall time of the loop by its iterations
};

// The smallest value that at least `share` of all are not above (nearest rank). `sorted` is not empty.
double percentile(std::span<const double> sorted, double share);

double median(std::vector<double> values);

// `slowest_us` has one duration an iteration, in any order, and is sorted on the way.
Timing summarize(std::span<double> slowest_us, double wall_us);

}  // namespace anello::bench
