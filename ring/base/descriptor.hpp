// Owns a file descriptor. Also makes an Error from errno. Any thread.
#pragma once
#include <anello/error.hpp>
#include <string_view>
#include <utility>

namespace anello {

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
  int release() { return std::exchange(fd_, -1); }  // from now on the caller owns the descriptor
  void close();

 private:
  int fd_ = -1;
};

// For a call that failed because too many files are open, returns the end of a message, which names the limit to raise:
// the process's limit (EMFILE) or the system's (ENFILE). Empty for every other error.
std::string_view remedy_for_lack_of_files(int error);

// Makes an Error from `errno`; `attempt` describes the failed call.
Error system_error(std::string_view attempt, ErrorCode code = ErrorCode::unsupported);

}  // namespace anello
