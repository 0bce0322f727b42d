#include "trainer/stop_check.hpp"

#include <algorithm>

namespace anello::trainer {

bool StopCheck::after_step() {
  constexpr double kPeriodSeconds = 0.25;
  if (requested_ == nullptr || --left_ > 0) return false;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = now - compared_at_;
  compared_at_ = now;
  double asked_and_seconds[] = {*requested_ ? 1.0 : 0.0, since.count()};
  world_.allreduce(asked_and_seconds, Op::max, {.name = "stop?"});
  // Uses the slowest rank's time, so that all ranks compute the same number.
  const double steps = kPeriodSeconds / std::max(1e-9, asked_and_seconds[1]) * double(interval_);
  left_ = interval_ = std::uint64_t(std::clamp(steps, 1.0, 2.0 * double(interval_)));
  return asked_and_seconds[0] > 0;
}

}  // namespace anello::trainer
