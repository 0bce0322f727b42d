// Replaces standard error by a full pipe, as long as this object exists.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace anello {

class FullPipe {
 public:
  FullPipe() : before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string page(4096, '.');
    while (write(ends_[1], page.data(), page.size()) > 0) filled_ += page.size();
    fcntl(ends_[1], F_SETFL, 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~FullPipe() {
    dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, ends_[0], ends_[1]}) close(fd);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  // Reads standard error until the output ends with this text. If this takes too long, returns the text so far.
  std::string read_until(const std::string& end) {
    std::string all;
    pollfd polled{ends_[0], POLLIN, 0};
    while (!all.ends_with(end) && poll(&polled, 1, 20000) > 0) {
      char some[4096];
      const ssize_t count = read(ends_[0], some, sizeof some);
      if (count > 0) all.append(some, std::size_t(count));
    }
    return all.substr(std::min(filled_, all.size()));
  }

 private:
  int before_, ends_[2] = {-1, -1};
  std::size_t filled_ = 0;
};

}  // namespace anello
