#include "rendezvous/launch/run/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace anello::launch {
namespace {

// A process gets no notice when it comes to the foreground. So it checks periodically.
constexpr std::chrono::milliseconds kForegroundCheck{500};

// tcgetpgrp() fails if the terminal does not control this process. Such a terminal may be read at any time.
bool in_foreground() {
  const pid_t group = tcgetpgrp(STDIN_FILENO);
  return group < 0 || group == getpgrp();
}

}  // namespace

Descriptor Input::rank_end() {
  if (isatty(STDIN_FILENO) != 1) return Descriptor(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  Pipe pipe = make_pipe();
  set_nonblocking(pipe.write);
  to_rank_ = std::move(pipe.write);
  return std::move(pipe.read);
}

void Input::watch(PollSet& polls, const std::function<void()>& line_typed) {
  if (!to_rank_) return;
  polls.add(to_rank_.get(), bytes_.empty() ? 0 : POLLOUT, [this](short events) {
    if (events & POLLERR)
      to_rank_.close();
    else
      pass_on();
  });
  if (!bytes_.empty()) return;
  if (in_foreground())
    polls.add(STDIN_FILENO, POLLIN, [this, line_typed](short) { read_some(line_typed); });
  else
    polls.until(std::chrono::steady_clock::now() + kForegroundCheck);
}

void Input::read_some(const std::function<void()>& line_typed) {
  std::array<char, 4096> bytes;
  const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got > 0) {
    bytes_.assign(bytes.data(), std::size_t(got));
    if (bytes_.find('\n') != std::string::npos) line_typed();
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR && !(errno == EIO && !in_foreground()))) {
    to_rank_.close();
  }
}

void Input::pass_on() {
  const ssize_t written = write(to_rank_.get(), bytes_.data(), bytes_.size());
  if (written > 0) bytes_.erase(0, std::size_t(written));
  if (written < 0 && errno == EPIPE) to_rank_.close();
}

}  // namespace anello::launch
