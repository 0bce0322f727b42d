// How one rank's clock is read on another's. Pure.
#pragma once
#include <cstdint>
#include <span>

namespace anello {

// A question and its answer, by the steady clocks of him who asks (sent, back) and of him who answers (theirs).
struct ClockSample {
  std::int64_t sent_ns = 0, theirs_ns = 0, back_ns = 0;
};

struct ClockOffset {
  std::int64_t at_ns = 0;      // of the clock that answered, when this was so
  std::int64_t behind_ns = 0;  // the clock that asked, less the one that answered
  std::int64_t within_ns = 0;  // and so much more or less at most
};

// From the fastest of the answers: it lies somewhere between question and answer, most likely halfway.
// Source: Mills, "Internet Time Synchronization: the Network Time Protocol", 1991; Cristian, "Probabilistic Clock
// Synchronization", 1989.
ClockOffset estimate(std::span<const ClockSample> samples);

// From two measurements: the clocks may drift apart.
struct Alignment {
  ClockOffset first, last;

  // A time of the clock that answered, on the clock that asked.
  std::int64_t translate(std::int64_t steady_ns) const;
};

}  // namespace anello
