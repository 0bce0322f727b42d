// Messages to standard error, one write(2) for each line, so that lines of several processes do not mix. Standard error
// may be a pipe that is not read, which other processes use too; so a separate thread writes (blocking_work.hpp), and a
// thread that logs is not blocked for long. Any thread.
#pragma once
#include <chrono>
#include <string_view>

namespace anello {

enum class Severity { error, warning, info, debug };

// For the whole process: sets the lowest severity that is written, and the text before each message ("rank 3"). Call at
// start.
void set_log(Severity min, std::string_view name);
bool log_enabled(Severity severity);
// The line has been written when this returns, unless standard error does not take it: then it is written later, in
// order. At most 1,000 lines are kept; the number of lines that are lost is written in their place.
void log(Severity severity, std::string_view message);
// Blocks until all lines are written, for at most `limit`. Called at the end of the process.
void flush_log(std::chrono::milliseconds limit);
bool parse(std::string_view text, Severity&);

}  // namespace anello
