// Ranks of a Slurm step get their job's secret from the rank that made it. That rank listens on a port that follows
// from the job's name (rendezvous/join/job_ports.hpp). A rank connects, sends a munge credential as its request, and
// receives a credential with the job's name, the secret and the rendezvous server's port. Only processes of the same
// user can make and decode these. So neither side has to trust the other's address, a connection of another user costs
// no credential, and a rank notices if another process or job has taken the port.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/join/invitation.hpp"
#include "rendezvous/join/munge.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

// Owns a thread and a listener. Any thread may construct and destroy it.
class CredentialListener {
 public:
  // Listens at `address` when the constructor returns. While `open` returns false, no connection receives a credential;
  // it is called on the listener's thread. `max_half_open` limits the connections that have not been answered: one more
  // closes the oldest. Throws Error{network} that names the address and port. The destructor waits for a munged that
  // does not answer, about 10 s at most.
  CredentialListener(const net::HostPort& address, std::shared_ptr<Munge> munge, const Invitation& invitation,
                     std::function<bool()> open, std::size_t max_half_open = 1024);
  ~CredentialListener();
  CredentialListener(const CredentialListener&) = delete;
  CredentialListener& operator=(const CredentialListener&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Asks all places at once, again and again, until a CredentialListener of this job answers at one of them: the
// listening rank may start later, and other programs may have its ports. Returns nothing after the deadline; `tried`
// then holds the last error of each place. Blocks, also while munged answers. Throws as Interruption::check() does.
std::optional<Invitation> find_invitation(const std::string& job, const std::vector<net::HostPort>& places,
                                          Munge& munge, std::chrono::steady_clock::time_point deadline,
                                          std::string& tried);

}  // namespace anello::rendezvous
