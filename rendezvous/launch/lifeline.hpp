// A TCP connection on which nothing is ever sent. It tells each end when the other one's process or host is gone, or
// the network between them is cut: the kernel asks an idle connection every second whether it still holds, and gives up
// when no answer has come for ANELLO_SILENCE_LIMIT. The kernel answers also for a process that is stopped or busy.
// TCP_USER_TIMEOUT on the connection of the messages would not do: it ends a connection whose receiver is stopped with
// a full buffer. Owned by a poll loop.
#pragma once
#include <chrono>
#include <string>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/poll_set.hpp"

namespace anello::launch {

// How long an agent may be silent if ANELLO_SILENCE_LIMIT is `limit`: at least 4 s; 0: for any time.
std::chrono::milliseconds lifeline_limit(std::chrono::milliseconds limit);

class Lifeline {
 public:
  // `limit` is ANELLO_SILENCE_LIMIT.
  Lifeline(Descriptor socket, std::chrono::milliseconds limit);
  void watch(PollSet& polls);
  bool broken() const { return broken_; }
  // For a child process, which has the same connection then; it would lose the socket itself (unshared_socket.hpp).
  // Throws Error{unsupported} if no descriptor is free.
  Descriptor duplicate() const;
  const std::string& error() const { return error_; }  // empty: the other end was closed

 private:
  Descriptor socket_;
  bool broken_ = false;
  std::string error_;
};

}  // namespace anello::launch
