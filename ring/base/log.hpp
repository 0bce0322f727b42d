// Messages to standard error, one write(2) a line so that lines of several processes do not mix. Any thread.
#pragma once
#include <string_view>

namespace anello {

enum class Severity { error, warning, info, debug };

// Process-wide: the least severe message that is written, and what stands before each ("rank 3"). Set at start.
void set_log(Severity least, std::string_view who);
bool log_enabled(Severity severity);
void log(Severity severity, std::string_view message);
bool parse(std::string_view text, Severity&);

}  // namespace anello
