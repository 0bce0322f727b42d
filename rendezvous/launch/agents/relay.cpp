#include "rendezvous/launch/agents/relay.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace anello::launch {

RelaySource::RelaySource(Descriptor from, std::function<void(std::string_view)> send)
    : from_(std::move(from)), send_(std::move(send)) {}

void RelaySource::watch(PollSet& polls) {
  if (from_ && room_ > 0) polls.add(from_.get(), POLLIN, [this](short) { read_some(); });
}

void RelaySource::taken(std::size_t bytes) {
  room_ = std::min(kWindow, room_ + bytes);
}

void RelaySource::end() {
  if (!from_) return;
  from_.close();
  send_({});
}

void RelaySource::read_some() {
  if (!from_ || room_ == 0) return;
  std::array<char, kWindow> bytes;
  const ssize_t got = read(from_.get(), bytes.data(), std::min(bytes.size(), room_));
  if (got > 0) {
    room_ -= std::size_t(got);
    send_({bytes.data(), std::size_t(got)});
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    end();
  }
}

RelaySink::RelaySink(Descriptor to, std::function<void(std::size_t)> taken)
    : to_(std::move(to)), taken_(std::move(taken)) {
  if (to_) set_nonblocking(to_);
}

void RelaySink::arrived(std::string_view bytes) {
  if (bytes.empty()) ended_ = true;
  pending_ += bytes;
  write_some();
}

void RelaySink::watch(PollSet& polls) {
  if (!to_) return;
  polls.add(to_.get(), pending_.empty() ? 0 : POLLOUT, [this](short events) {
    if (events & POLLERR) to_.close();
    write_some();
  });
}

// If the pipe no longer has a reader, drops the bytes and counts them as written.
void RelaySink::write_some() {
  std::size_t gone = pending_.size();
  if (to_ && !pending_.empty()) {
    const ssize_t written = write(to_.get(), pending_.data(), pending_.size());
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written >= 0) gone = std::size_t(written);
    if (written < 0) to_.close();
  }
  pending_.erase(0, gone);
  if (gone > 0) taken_(gone);
  if (ended_ && pending_.empty()) to_.close();
}

}  // namespace anello::launch
