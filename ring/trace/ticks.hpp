// Time for frequent records. The processor's counter takes 10 ns to read, the system's clock 25 ns. Any thread.
#pragma once
#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace anello::trace {

using Ticks = std::uint64_t;  // 0: not set

// True if the processor's counter keeps its rate when the core sleeps or changes its own rate. The answer is looked up
// once.
bool counts_evenly();

inline Ticks ticks() {
#if defined(__x86_64__)
  static const bool evenly = counts_evenly();
  if (evenly) return __rdtsc();
#endif
  return Ticks(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Converts ticks to time. Reads both clocks when it is constructed, and again for each Scale; times in between are
// interpolated.
class TickClock {
 public:
  struct Moment {
    Ticks ticks = 0;
    std::int64_t steady_ns = 0;  // time since the epoch of std::chrono::steady_clock
  };
  class Scale {
   public:
    Scale(Moment from, Moment to);
    std::int64_t steady_ns(Ticks at) const;
    std::int64_t nanoseconds(Ticks apart) const;

   private:
    Moment from_;
    double ns_a_tick_;
  };

  static Moment now();
  TickClock() : from_(now()) {}
  Scale scale() const { return {from_, now()}; }

 private:
  Moment from_;
};

}  // namespace anello::trace
