// A TCP connection on which nothing is ever sent. It tells each end when the other one's process or host is gone, or
// the network between them is cut: the kernel asks an idle connection every second whether it still holds, and gives up
// after about 4 s. The kernel answers also for a process that is stopped or busy. TCP_USER_TIMEOUT on the connection of
// the messages would not do: it ends a connection whose receiver is stopped with a full buffer. Owned by a poll loop.
#pragma once
#include <string>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/poll_set.hpp"

namespace anello::launch {

class Lifeline {
 public:
  explicit Lifeline(Descriptor socket);
  void watch(PollSet& polls);
  bool broken() const { return broken_; }
  const std::string& error() const { return error_; }  // empty: the other end was closed

 private:
  Descriptor socket_;
  bool broken_ = false;
  std::string error_;
};

}  // namespace anello::launch
