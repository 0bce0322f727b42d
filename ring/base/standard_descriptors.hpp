// Standard input, output and error, which a program may have been started without. Then the next file that is opened
// gets such a number, and what the program prints goes into it: into a connection, for example. Any thread.
#pragma once

namespace anello {

// Opens /dev/null for each standard descriptor that is closed. Throws Error{unsupported} if that is impossible.
void open_missing_standard_descriptors();

// Writes what std::cout holds back. Throws Error{file} if anything that was written to std::cout is lost.
void require_output_written();

}  // namespace anello
