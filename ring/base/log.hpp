// Messages to standard error, one write(2) a line so that lines of several processes do not mix. Any thread.
#pragma once
#include <string_view>

namespace anello {

enum class Severity { error, warning, info, debug };

// Process-wide: the lowest severity that is written, and the text before each message ("rank 3"). Set at start.
void set_log(Severity min, std::string_view name);
bool log_enabled(Severity severity);
void log(Severity severity, std::string_view message);
bool parse(std::string_view text, Severity&);

}  // namespace anello
