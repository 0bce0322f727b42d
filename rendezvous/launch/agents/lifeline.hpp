// A TCP connection on which nothing is ever sent. It breaks when the process or the host at the other end is gone, or
// when the network is cut: the kernel probes an idle connection every second, and gives up if no answer has come for
// ANELLO_SILENCE_LIMIT. The kernel also answers for a process that is stopped or busy, so such a process does not break
// the lifeline. The messages have a separate connection: TCP_USER_TIMEOUT would also end that connection if its
// receiver were stopped with a full buffer. Owned by a poll loop.
#pragma once
#include <chrono>
#include <string>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"

namespace anello::launch {

// Returns how long an agent may be silent if ANELLO_SILENCE_LIMIT is `limit`: at least 4 s. 0: there is no limit.
std::chrono::milliseconds lifeline_limit(std::chrono::milliseconds limit);

class Lifeline {
 public:
  // `limit` is ANELLO_SILENCE_LIMIT.
  Lifeline(Descriptor socket, std::chrono::milliseconds limit);
  void watch(PollSet& polls);
  bool broken() const { return broken_; }
  // Returns a descriptor for a child process, which then shares the connection. The socket itself is closed in children
  // (unshared_socket.hpp). Throws Error{unsupported} if no descriptor is free.
  Descriptor duplicate() const;
  const std::string& error() const { return error_; }  // why the lifeline broke; empty: the other end closed it

 private:
  Descriptor socket_;
  bool broken_ = false;
  std::string error_;
};

}  // namespace anello::launch
