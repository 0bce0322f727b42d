// Translates times of one rank's clock to another's. Pure.
#pragma once
#include <cstdint>
#include <span>

namespace anello::trace {

// A question and its answer, with times of two steady clocks: the asking rank's (sent, back) and the answering rank's
// (theirs).
struct ClockSample {
  std::int64_t sent_ns = 0, theirs_ns = 0, back_ns = 0;
};

struct ClockOffset {
  std::int64_t at_ns = 0;      // time of the measurement, on the clock of the rank that answered
  std::int64_t behind_ns = 0;  // the asking clock minus the answering clock
  std::int64_t within_ns = 0;  // the largest possible error of behind_ns
};

// Uses the fastest answer. The other clock was read between question and answer, most likely halfway.
ClockOffset estimate(std::span<const ClockSample> samples);

// Combines two measurements, because the clocks may drift apart.
struct Alignment {
  ClockOffset first, last;

  // Converts a time on the answering clock to one on the asking clock.
  std::int64_t translate(std::int64_t steady_ns) const;
};

}  // namespace anello::trace
