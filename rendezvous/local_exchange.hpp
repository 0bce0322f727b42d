// How ranks of one host get their job's secret from the rank that made it, without a file and without a service: over a
// socket of this host whose other end's user the kernel tells. So ranks of another user are refused on both sides,
// though they could reach the same loopback ports. The socket has a name that follows from the user and the job, and no
// place in the file system: it is gone with its process.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/invitation.hpp"

namespace anello::rendezvous {

// Owns a thread and a listener. Any thread may construct and destroy it.
class LocalListener {
 public:
  // Listens when the constructor returns. `open` is called on the listener's thread: while it returns false,
  // connections are closed without an answer. Throws Error{configuration} if the name is taken, which says whether by a
  // job of this user or by another user.
  LocalListener(const Invitation& invitation, std::function<bool()> open);
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What the rank that listens for this job sends. Blocks for `limit` at most. Throws Error{network} or {timed_out} if
// none listens yet or it does not answer, and Error{unauthorized} if a process of another user listens.
Invitation receive_local_invitation(const std::string& job, std::chrono::milliseconds limit);

// For the second process that listens for a job; `where`, for messages, may be empty.
Error second_of_a_job(const std::string& job, const std::string& where);

}  // namespace anello::rendezvous
