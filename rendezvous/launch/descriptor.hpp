// Owners of file descriptors, and the few ways in which the launcher makes them. Everything made here is close-on-exec.
// Any thread. Knows nothing of ranks.
#pragma once
#include <anello/error.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anello::launch {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void close();

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
};

// `errno` as an Error that says what was attempted.
Error system_error(std::string_view attempt, Code code = Code::unsupported);

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
