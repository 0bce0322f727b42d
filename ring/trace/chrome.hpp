// A recording as events of the trace format that chrome://tracing introduced and Perfetto reads. Pure.
// Source: "Trace Event Format", Google, 2016.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "ring/trace/alignment.hpp"
#include "ring/trace/timeline.hpp"

namespace anello::trace {

struct Traced {
  int rank = 0;
  std::string_view host;
  std::int64_t zero_ns = 0;  // start of the timeline, on rank 0's clock
  Alignment alignment;       // aligns this rank's clock with rank 0's
};

// Passes the events to write() in pieces, one JSON object a line, with a comma before each except the very first. A
// rank is shown as a process; a group's operations, the link to each peer and the local work are its threads. An
// operation's time in the queue is an asynchronous event.
void chrome_events(const Recording& recording, const Traced& traced, const TickClock::Scale& scale, bool very_first,
                   const std::function<void(std::string_view)>& write);

// Return the text before and after all events.
std::string chrome_head();
std::string chrome_tail();

}  // namespace anello::trace
