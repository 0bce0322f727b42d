// Converts times of one rank's clock to another rank's clock. Pure.
#pragma once
#include <cstdint>
#include <span>

namespace anello::trace {

// A question and its answer, with times of two steady clocks: `sent_ns` and `back_ns` are of the asking rank's clock,
// `theirs_ns` is of the answering rank's clock.
struct ClockSample {
  std::int64_t sent_ns = 0, theirs_ns = 0, back_ns = 0;
};

struct ClockOffset {
  std::int64_t at_ns = 0;      // time of the measurement, on the clock of the rank that answered
  std::int64_t behind_ns = 0;  // time of the asking rank's clock minus time of the answering rank's clock
  std::int64_t within_ns = 0;  // maximum error of behind_ns
};

// Uses the fastest answer. The answering rank read its clock between question and answer, most likely halfway.
ClockOffset estimate(std::span<const ClockSample> samples);

// Combines two measurements, because the clocks may drift apart.
struct Alignment {
  ClockOffset first, last;

  // Converts a time of the answering rank's clock to a time of the asking rank's clock.
  std::int64_t translate(std::int64_t steady_ns) const;
};

}  // namespace anello::trace
