// The reported figures of one timed loop, computed from the times of its iterations. Pure.
#pragma once
#include <span>
#include <vector>

namespace anello::bench {

// Times in microseconds.
struct Timing {
  // Percentiles and maximum over the iterations. The time of an iteration is the time of its slowest rank.
  double p50_us = 0, p90_us = 0, p99_us = 0, max_us = 0;
  double mean_us = 0;  // wall time of the loop divided by its iterations
};

// Returns the nearest-rank percentile: the smallest value such that at least `share` of all values are not larger.
// `sorted` must not be empty.
double percentile(std::span<const double> sorted, double share);

double median(std::vector<double> values);

// `slowest_us` has the slowest rank's time for each iteration, in any order; this function sorts it in place.
Timing summarize(std::span<double> slowest_us, double wall_us);

}  // namespace anello::bench
