#include "ring/trace/ticks.hpp"

#include <cmath>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace anello::trace {

bool counts_evenly() {
#if defined(__x86_64__)
  constexpr unsigned kPowerManagement = 0x80000007, kInvariant = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
#else
  return false;
#endif
}

// Reads both clocks several times and returns the pair of readings that are closest together in time, because the
// thread may be suspended between two readings.
TickClock::Moment TickClock::now() {
  constexpr int kTries = 5;
  Moment best;
  Ticks closest = UINT64_MAX;
  for (int k = 0; k < kTries; k++) {
    const Ticks before = ticks();
    const std::int64_t steady = std::chrono::steady_clock::now().time_since_epoch().count();
    const Ticks apart = ticks() - before;
    if (apart >= closest) continue;
    closest = apart;
    best = {before + apart / 2, steady};
  }
  return best;
}

TickClock::Scale::Scale(Moment from, Moment to)
    : from_(from),
      ns_a_tick_(to.ticks > from.ticks ? double(to.steady_ns - from.steady_ns) / double(to.ticks - from.ticks) : 1) {}

std::int64_t TickClock::Scale::nanoseconds(Ticks apart) const {
  return std::llround(double(std::int64_t(apart)) * ns_a_tick_);
}

std::int64_t TickClock::Scale::steady_ns(Ticks at) const {
  return from_.steady_ns + nanoseconds(at - from_.ticks);
}

}  // namespace anello::trace
