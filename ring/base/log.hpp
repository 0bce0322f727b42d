// Messages to standard error, one write(2) a line so that lines of several processes do not mix. Standard error may be
// a pipe that is not read, and belongs to other processes too; so a thread of its own writes (blocking_work.hpp), and
// a thread that logs is not blocked for long. Any thread.
#pragma once
#include <chrono>
#include <string_view>

namespace anello {

enum class Severity { error, warning, info, debug };

// Process-wide: the lowest severity that is written, and the text before each message ("rank 3"). Set at start.
void set_log(Severity min, std::string_view name);
bool log_enabled(Severity severity);
// The line is written when this returns, except if standard error takes none: then it follows later, in order. At most
// 1,000 lines wait; the number of those that are lost is written in their place.
void log(Severity severity, std::string_view message);
// Waits until all lines are written; for at most `limit`. The end of the process calls it.
void flush_log(std::chrono::milliseconds limit);
bool parse(std::string_view text, Severity&);

}  // namespace anello
