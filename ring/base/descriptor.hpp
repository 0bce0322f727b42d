// The owner of a file descriptor, and errno as an Error. Any thread.
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
  int release() { return std::exchange(fd_, -1); }  // it has another owner now
  void close();

 private:
  int fd_ = -1;
};

// What to do if a call has failed because no file may be opened, as the end of a message: which limit to raise, that of
// the process (EMFILE) or of the system (ENFILE). Empty for every other error.
std::string_view remedy_for_lack_of_files(int error);

// `errno` as an Error; `what` was attempted.
Error system_error(std::string_view attempt, ErrorCode code = ErrorCode::unsupported);

}  // namespace anello
