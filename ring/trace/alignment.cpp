#include "ring/trace/alignment.hpp"

#include <algorithm>
#include <cmath>

namespace anello::trace {

ClockOffset estimate(std::span<const ClockSample> samples) {
  const auto took = [](const ClockSample& sample) { return sample.back_ns - sample.sent_ns; };
  const ClockSample& best = *std::ranges::min_element(samples, {}, took);
  const std::int64_t halfway = best.sent_ns + took(best) / 2;
  return {best.theirs_ns, halfway - best.theirs_ns, (took(best) + 1) / 2};
}

std::int64_t Alignment::translate(std::int64_t steady_ns) const {
  const auto apart = double(last.at_ns - first.at_ns);
  const double drift = apart > 0 ? double(last.behind_ns - first.behind_ns) / apart : 0;
  return steady_ns + first.behind_ns + std::llround(drift * double(steady_ns - first.at_ns));
}

}  // namespace anello::trace
