// The reported figures of one timed loop, from its times. Pure.
#pragma once
#include <span>
#include <vector>

namespace anello::bench {

// Times in microseconds.
struct Timing {
  double p50_us = 0, p90_us = 0, p99_us = 0, max_us = 0;  // of the iterations; the time of one is its slowest rank's
  double mean_us = 0;                                     // wall time of the loop divided by its iterations
};

// The nearest-rank percentile: the smallest value such that at least `share` of all values are at most this value.
// `sorted` must not be empty.
double percentile(std::span<const double> sorted, double share);

double median(std::vector<double> values);

// `slowest_us` has one duration for each iteration, in any order; it is sorted in place.
Timing summarize(std::span<double> slowest_us, double wall_us);

}  // namespace anello::bench
