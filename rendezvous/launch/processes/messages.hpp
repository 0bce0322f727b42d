// The messages between the launcher and its keeper, over a socket that keeps message boundaries. Both sides are the
// same program on the same host, so plain structs suffice.
#pragma once
#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <optional>

#include "rendezvous/launch/base/descriptor.hpp"
#include "ring/world/last_word.hpp"

namespace anello::launch {

// A message to the keeper. The end of the stream means that the launcher has died.
struct Order {
  enum class Kind {
    start,       // starts all ranks; in an elastic job, starts none
    start_rank,  // starts one rank of an elastic job, also again after it has ended
    kill_rank,
    signal,  // sends a signal to the ranks; after a signal that ends programs, no rank is started any more
    kill     // kills all ranks, and no rank is started any more
  } kind;
  int value = 0;  // start: the rendezvous's port; signal: its number
  int rank = -1;  // start_rank and kill_rank: the rank
};

// A message from the keeper. The end of the stream means that no process is left.
struct Report {
  enum class Kind {
    started,
    not_started,
    exited,
    stopped,       // stopped by a signal such as SIGSTOP
    continued,     // continued after it was stopped
    signal_taken,  // rank 0 has received a signal that ends programs, or has not received it in time
  } kind;
  int rank;
  pid_t pid = -1;
  int status = 0;  // not_started: the reason (start_problem.hpp); exited, stopped: status of waitpid()
};

// Does not block. Returns false if the other end must read earlier messages first. If the other end is closed, the
// message is lost without an error.
template <class Message>
bool try_to_send(const Descriptor& channel, const Message& message) {
  ssize_t sent;
  do sent = send(channel.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent >= 0 || errno != EAGAIN;
}

// Sends the message, and blocks until there is room. If the other end is closed, the message is lost without an error.
template <class Message>
void send_message(const Descriptor& channel, const Message& message) {
  send(channel.get(), &message, sizeof message, MSG_NOSIGNAL);
}

// Returns the next message; nothing if none has arrived. Sets `closed` if the other end is closed. Does not block.
template <class Message>
std::optional<Message> receive_message(const Descriptor& channel, bool& closed) {
  Message message;
  ssize_t got;
  // ECONNRESET: the other end closed while it had unread messages. The messages that it had sent can still be read.
  do got = recv(channel.get(), &message, sizeof message, MSG_DONTWAIT);
  while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got == ssize_t(sizeof message)) return message;
  closed = got >= 0 || errno != EAGAIN;
  return std::nullopt;
}

// Returns the next last word of a rank; nothing if there is none. Skips messages that are not last words. Does not
// block.
inline std::optional<world::LastWord> receive_last_word(const Descriptor& last_words) {
  char bytes[world::LastWord::kMaxMessageBytes + 64];
  for (;;) {
    const ssize_t got = recv(last_words.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    if (auto word = world::decode_last_word({bytes, std::size_t(got)})) return word;
  }
}

}  // namespace anello::launch
