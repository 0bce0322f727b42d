#include "rendezvous/launch/lifeline.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace anello::launch {
namespace {

constexpr int kIdleSeconds = 1, kBetweenSeconds = 1, kProbes = 3;

}  // namespace

Lifeline::Lifeline(Descriptor socket) : socket_(std::move(socket)) {
  const int yes = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kBetweenSeconds, sizeof kBetweenSeconds);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
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
