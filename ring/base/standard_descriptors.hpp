// A program may be started with standard input, output or error closed. Then the next file that the program opens, for
// example a connection, gets the number 0, 1 or 2, and the program's output goes into that file. These functions
// prevent this. Any thread.
#pragma once

namespace anello {

// Opens /dev/null for each standard descriptor that is closed. Throws Error{unsupported} if that is impossible.
void open_missing_standard_descriptors();

// Writes the output that std::cout still holds. Throws Error{file} if any output of std::cout was lost.
void require_output_written();

}  // namespace anello
