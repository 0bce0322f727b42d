// Standard input, output and error may be closed when a program is started. The next file that is opened then gets such
// a number, and the program's output goes into it, for example into a connection. Any thread.
#pragma once

namespace anello {

// Opens /dev/null for each standard descriptor that is closed. Throws Error{unsupported} if that is impossible.
void open_missing_standard_descriptors();

// Writes the output that std::cout still holds. Throws Error{file} if any output of std::cout was lost.
void require_output_written();

}  // namespace anello
