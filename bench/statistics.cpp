#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "ring/base/check.hpp"

namespace anello::bench {

double percentile(std::span<const double> sorted, double share) {
  ANELLO_CHECK(!sorted.empty());
  const auto rank = std::size_t(std::ceil(share * double(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return percentile(values, 0.5);
}

Timing summarize(std::span<double> slowest_us, double wall_us) {
  std::ranges::sort(slowest_us);
  return {percentile(slowest_us, 0.5), percentile(slowest_us, 0.9), percentile(slowest_us, 0.99), slowest_us.back(),
          wall_us / double(slowest_us.size())};
}

}  // namespace anello::bench
