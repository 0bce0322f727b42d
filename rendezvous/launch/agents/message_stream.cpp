#include "rendezvous/launch/agents/message_stream.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/message_channel.hpp"

namespace anello::launch {
namespace {

constexpr std::size_t kMaxMessageBytes = 1 << 20, kHeaderBytes = sizeof(std::uint32_t);

}  // namespace

MessageStream::MessageStream(Descriptor socket) : socket_(std::move(socket)) {
  set_nonblocking(socket_);
}

void MessageStream::send(std::string_view message) {
  if (closed_ || finished_) return;
  outbox_ += net::framed(message);
  send_some();
}

void MessageStream::finish() {
  finished_ = true;
  if (!closed_ && outbox_.empty()) shutdown(socket_.get(), SHUT_WR);
}

void MessageStream::watch(PollSet& polls, std::function<void(std::string_view)> received) {
  if (closed_) return;
  const short events = outbox_.empty() ? POLLIN : POLLIN | POLLOUT;
  polls.add(socket_.get(), events, [this, received = std::move(received)](short ready) {
    if (ready & POLLOUT) send_some();
    if (ready & ~POLLOUT) receive_some(received);
  });
}

// Ignores errors, because receive_some() finds them too, and only after it has read everything that the other end sent
// before the error.
void MessageStream::send_some() {
  const ssize_t sent = ::send(socket_.get(), outbox_.data(), outbox_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) outbox_.clear();
  if (sent > 0) outbox_.erase(0, std::size_t(sent));
  if (finished_ && outbox_.empty()) shutdown(socket_.get(), SHUT_WR);
}

void MessageStream::receive_some(const std::function<void(std::string_view)>& received) {
  std::array<char, 128 << 10> bytes;
  const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) error_ = std::strerror(errno);
  if (got <= 0) {
    closed_ = true;
    return;
  }
  inbox_.append(bytes.data(), std::size_t(got));
  take_messages(received);
}

void MessageStream::take_messages(const std::function<void(std::string_view)>& received) {
  std::string_view left = inbox_;
  while (left.size() >= kHeaderBytes) {
    const std::size_t bytes = Reader("message", left.substr(0, kHeaderBytes)).u32();
    if (bytes > kMaxMessageBytes) {
      closed_ = true;
      error_ = text("it announced a message of ", bytes, " bytes; the maximum is ", kMaxMessageBytes);
      return;
    }
    if (left.size() < kHeaderBytes + bytes) break;
    received(left.substr(kHeaderBytes, bytes));
    left.remove_prefix(kHeaderBytes + bytes);
  }
  inbox_.erase(0, inbox_.size() - left.size());
}

}  // namespace anello::launch
