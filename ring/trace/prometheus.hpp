// Counters in the text format that Prometheus scrapes. Pure.
// Source: "Exposition formats", prometheus.io, version 0.0.4.
#pragma once
#include <string>
#include <string_view>

#include "ring/trace/tally.hpp"

namespace anello {

struct Scraped {
  std::string_view job, host;
  int rank = 0;
  bool failed = false;  // the world
};

std::string prometheus_text(const Totals& totals, const TickClock::Scale& scale, const Scraped& scraped);

}  // namespace anello
