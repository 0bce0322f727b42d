// A recording as events of the trace format that chrome://tracing introduced and Perfetto reads. Pure.
// Source: "Trace Event Format", Google, 2016.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "ring/trace/alignment.hpp"
#include "ring/trace/timeline.hpp"

namespace anello {

struct Traced {
  int rank = 0;
  std::string_view host;
  std::int64_t zero_ns = 0;  // of rank 0's clock, when the timeline began
  Alignment alignment;       // of its clock with that of rank 0
};

// Hands out the events in pieces, one JSON object a line, each but the very first behind a comma: a rank is a process,
// a group's operations, the link to each peer and the local work are its threads. An operation's wait in the queue is
// an asynchronous event.
void chrome_events(const Recording& recording, const Traced& traced, const TickClock::Scale& scale, bool very_first,
                   const std::function<void(std::string_view)>& write);

// What stands before and after all events.
std::string chrome_head();
std::string chrome_tail();

}  // namespace anello
