#include "rendezvous/launch/output/sink.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

Sink::Sink(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {
  struct stat file {};
  fstat(fd, &file);
  socket_ = S_ISSOCK(file.st_mode);
  if (!S_ISFIFO(file.st_mode) && !S_ISCHR(file.st_mode)) return;
  own_ = Descriptor(::open(text("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own_)
    fd_ = own_.get();
  else
    may_block_ = true;
}

void Sink::watch(PollSet& polls, std::string& bytes) {
  if (state_ != State::open) bytes.clear();
  if (state_ != State::open) return;
  polls.add(fd_, bytes.empty() ? 0 : POLLOUT, [this, &bytes](short events) {
    if (events & (POLLERR | POLLHUP))
      close();
    else
      write_some(bytes);
  });
}

void Sink::write_some(std::string& bytes) {
  // If poll() reports a pipe as writable, the pipe has room for PIPE_BUF bytes.
  const std::size_t count = may_block_ ? std::min<std::size_t>(bytes.size(), PIPE_BUF) : bytes.size();
  const ssize_t written =
      socket_ ? send(fd_, bytes.data(), count, MSG_DONTWAIT | MSG_NOSIGNAL) : write(fd_, bytes.data(), count);
  if (written >= 0) {
    bytes.erase(0, std::size_t(written));
  } else if (errno == EPIPE || errno == ECONNRESET || errno == EIO) {
    close();
  } else if (errno != EAGAIN && errno != EINTR) {
    state_ = State::failed;
    failure_ = text("writing output: ", std::strerror(errno));
  }
}

// A terminal that has gone is not reported as a reader that has gone. When a terminal closes, the kernel sends SIGHUP,
// which ends the job. A user who ignores SIGHUP wants the job to continue.
void Sink::close() {
  state_ = terminal_ ? State::terminal_gone : State::reader_gone;
}

TerminalStyle terminal_style(int fd) {
  TerminalStyle style;
  style.terminal = isatty(fd) == 1 && environment("TERM").value_or("dumb") != "dumb";
  style.colour = style.terminal && !environment("NO_COLOR");
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
  return style;
}

bool same_file(int left, int right) {
  struct stat one {
  }, other{};
  return fstat(left, &one) == 0 && fstat(right, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace anello::launch
