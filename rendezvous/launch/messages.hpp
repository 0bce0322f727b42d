// What the launcher and its keeper tell each other, over a socket that keeps messages apart. Both are the same program
// on the same host, so that plain structs will do.
#pragma once
#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <optional>

#include "rendezvous/launch/descriptor.hpp"

namespace anello::launch {

// To the keeper. The end of the stream means that the launcher is dead.
struct Order {
  enum class Kind { start, signal, kill } kind;
  int value = 0;  // start: the rendezvous's port; signal: which
};

// From the keeper. The end of the stream means that no process is left.
struct Report {
  enum class Kind { started, not_started, exited } kind;
  int rank;
  pid_t pid = -1;
  int status = 0;  // not_started: errno; exited: as waitpid has it
};

// Losing a message to an end that is closed is fine: the other side is gone.
template <class Message>
void tell(const Descriptor& channel, const Message& message) {
  send(channel.get(), &message, sizeof message, MSG_NOSIGNAL);
}

// Nothing, if there is none now or (`over`) the other end is closed. Does not block.
template <class Message>
std::optional<Message> hear(const Descriptor& channel, bool& over) {
  Message message;
  ssize_t got;
  // A reset says that the other end closed with messages unread; what it had sent before can still be read.
  do got = recv(channel.get(), &message, sizeof message, MSG_DONTWAIT);
  while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got == ssize_t(sizeof message)) return message;
  over = got >= 0 || errno != EAGAIN;
  return std::nullopt;
}

}  // namespace anello::launch
