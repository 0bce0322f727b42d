// Ranks of one host get their job's secret from the rank that made it, without a file and without a service: over a
// local socket, where the kernel reports the user of the other end. So both sides refuse ranks of another user,
// although these could reach the same loopback ports. The socket's name follows from the user and the job's place. It
// has no place in the file system: it is gone with its process.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/join/invitation.hpp"

namespace anello::rendezvous {

// Another process of this user listens at this place.
struct NameTaken : Error {
  using Error::Error;
};

// Owns a thread and a listener. Any thread may construct and destroy it.
class LocalListener {
 public:
  // Listens for ranks that ask at `place` when the constructor returns. `open` is called on the listener's thread:
  // while it returns false, connections are closed without an answer. Throws NameTaken, Error{configuration} if a
  // process of another user has the name, and Error{network}.
  LocalListener(const std::string& place, const Invitation& invitation, std::function<bool()> open);
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The invitation of the rank that listens at this place; it may be to another run of the job. Blocks for `limit` at
// most. Throws Error{network} or {timed_out} if none listens yet or it does not answer, and Error{unauthorized} if a
// process of another user listens.
Invitation receive_local_invitation(const std::string& place, std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
