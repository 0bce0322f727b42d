// Messages to standard error, one write(2) for each line, so that lines of several processes do not mix. Standard error
// may be a pipe that is not read, and other processes may use the same pipe. So a separate thread writes
// (blocking_work.hpp), and a thread that logs is not blocked for long. Any thread.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace anello {

enum class Severity { error, warning, info, debug };

using LineStart = std::string (*)();

// For the whole process: sets the lowest severity that is written, and the text before each message ("rank 3"). Each
// line begins with the result of `line_start`, if it is given. Call at start.
void set_log(Severity min, std::string_view name, LineStart line_start = nullptr);
bool log_enabled(Severity severity);
// Returns when the line is written. If standard error does not accept the line soon, returns before that, and the line
// is written later, in order. At most 1,000 lines wait. Further lines are lost, and their number is written in their
// place.
void log(Severity severity, std::string_view message);
// Blocks until all lines are written, for at most `limit`. Called at the end of the process.
void flush_log(std::chrono::milliseconds limit);
bool parse(std::string_view text, Severity&);

}  // namespace anello
