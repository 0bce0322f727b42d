// Functions that make the launcher's file descriptors, all close-on-exec. Any thread. Nothing here depends on ranks.
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
Pipe make_channel();                                    // a pair of local sockets that keep message boundaries
Descriptor make_memory_file(std::string_view content);  // anonymous and read-only; its position is 0
Descriptor open_nothing();                              // /dev/null
void set_nonblocking(const Descriptor& fd);
// Writes all bytes; blocks. If this fails, throws Error{file} with the file's `name`.
void write_all(int fd, std::string_view bytes, const std::string& name);

// For a new process. Closes all descriptors above standard error, except `needed`.
void close_all_but(const std::vector<int>& needed);
struct OpenFilesLimit {
  unsigned long now, max;
};
OpenFilesLimit open_files_limit();
void set_open_files_limit(unsigned long now);  // `now` must be at most open_files_limit().max

}  // namespace anello::launch
