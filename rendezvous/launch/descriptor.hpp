// The few ways in which the launcher makes file descriptors. Everything made here is close-on-exec.
// Any thread. Knows nothing of ranks.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/descriptor.hpp"

namespace anello::launch {

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe();
Pipe make_channel();                                    // two ends of a local socket that keeps messages apart
Descriptor make_memory_file(std::string_view content);  // anonymous, cannot be changed any more, stands at its start
Descriptor open_nothing();                              // /dev/null
void set_nonblocking(const Descriptor& fd);
void write_all(int fd, std::string_view bytes, const std::string& name);  // blocking; Error{file} names the file

// Standard descriptors that the caller closed become /dev/null, so that no other file ever gets their numbers.
void open_missing_standard_descriptors();
// For a new process: closes everything above standard error that is not needed.
void close_all_but(const std::vector<int>& needed);
struct OpenFilesLimit {
  unsigned long now, most;
};
OpenFilesLimit open_files_limit();
void set_open_files_limit(unsigned long now);  // up to the most

}  // namespace anello::launch
