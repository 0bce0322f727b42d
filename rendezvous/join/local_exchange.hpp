// The ranks of one host get their job's secret from the rank that made the secret, without a file and without a
// service. They use a local socket, for which the kernel reports the user at the other end. So both sides refuse ranks
// of other users, although such ranks could reach the same loopback ports. The socket's name is computed from the user
// and the job's place (Placement::place). The socket is not in the file system, so it ends with its process.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/join/invitation.hpp"

namespace anello::rendezvous {

// Thrown if another process of this user listens at this place.
struct NameTaken : Error {
  using Error::Error;
};

// Owns a thread and a listener. Any thread may construct and destroy it.
class LocalListener {
 public:
  // Listens for ranks that ask at `place` before the constructor returns. While `open` returns false, connections are
  // closed without an answer; `open` is called on the listener's thread. Throws NameTaken, Error{configuration} if a
  // process of another user has the name, and Error{network}.
  LocalListener(const std::string& place, const Invitation& invitation, std::function<bool()> open);
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the invitation of the rank that listens at this place. The invitation may be for another run of the job.
// Blocks for at most `limit`. Throws Error{network} or {timed_out} if no rank listens yet or the rank does not answer,
// and Error{unauthorized} if a process of another user listens.
Invitation receive_local_invitation(const std::string& place, std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
