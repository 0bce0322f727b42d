#include "rendezvous/launch/agents/lifeline.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ring/net/sockets.hpp"

namespace anello::launch {
namespace {

constexpr std::chrono::milliseconds kMinLimit{4000};

}  // namespace

std::chrono::milliseconds lifeline_limit(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? limit : std::max(limit, kMinLimit);
}

Lifeline::Lifeline(Descriptor socket, std::chrono::milliseconds limit) : socket_(std::move(socket)) {
  if (limit.count() > 0) net::end_if_cut_off(socket_.get(), lifeline_limit(limit));
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
