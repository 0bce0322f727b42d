#include "rendezvous/launch/agents/lifeline.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace anello::launch {
namespace {

constexpr int kIdleSeconds = 1, kBetweenSeconds = 1;
constexpr std::chrono::milliseconds kMinLimit{4000};

}  // namespace

std::chrono::milliseconds lifeline_limit(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? limit : std::max(limit, kMinLimit);
}

// With TCP_USER_TIMEOUT, the time counts and not the number of probes (tcp(7)).
Lifeline::Lifeline(Descriptor socket, std::chrono::milliseconds limit) : socket_(std::move(socket)) {
  if (limit.count() == 0) return;
  const int yes = 1;
  const auto timeout_ms = unsigned(lifeline_limit(limit).count());
  setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kBetweenSeconds, sizeof kBetweenSeconds);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

Descriptor Lifeline::duplicate() const {
  Descriptor other(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0));
  if (!other) throw system_error("duplicating the connection to the launcher");
  return other;
}

void Lifeline::watch(PollSet& polls) {
  if (broken_) return;
  polls.add(socket_.get(), POLLIN, [this](short) {
    char byte;
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    if (got < 0) error_ = std::strerror(errno);
    broken_ = true;
  });
}

}  // namespace anello::launch
