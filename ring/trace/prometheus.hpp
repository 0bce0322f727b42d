// A rank's counters as a page for Prometheus. Pure.
#pragma once
#include <string>
#include <string_view>

#include "ring/trace/rejected_connections.hpp"
#include "ring/trace/tally.hpp"

namespace anello::trace {

struct Scraped {
  std::string_view job, host;
  int rank = 0;
  bool failed = false;  // the world has failed
};

std::string prometheus_text(const Totals& totals, const RejectedConnections::Counts& rejected_connections,
                            const TickClock::Scale& scale, const Scraped& scraped);

}  // namespace anello::trace
