// A recording as events in the trace format of chrome://tracing, which Perfetto also reads. Pure.
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

// Passes the events to write() in pieces, one JSON object a line, with a comma before each object except the first one
// of the file. The viewer shows a rank as a process. The process has a thread for each group's operations, for the link
// to each peer, and for the local work. An operation's time in the queue is an asynchronous event.
void chrome_events(const Recording& recording, const Traced& traced, const TickClock::Scale& scale, bool very_first,
                   const std::function<void(std::string_view)>& write);

// These return the text before and after all events.
std::string chrome_head();
std::string chrome_tail();

}  // namespace anello::trace
