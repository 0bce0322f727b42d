// In a Slurm step, the ranks get their job's secret from the rank that made the secret. That rank listens on a port
// computed from the job's name (rendezvous/join/job_ports.hpp). Another rank connects, sends a munge credential as its
// request, and receives a credential with the job's name, the secret and the rendezvous server's port. Only processes
// of the same user can make and decode these credentials. So neither side has to trust the other side's address, no
// credential is made for a connection of another user, and a rank notices if another process or job has taken the port.
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
  // Listens at `address` before the constructor returns. While `open` returns false, no connection receives a
  // credential; `open` is called on the listener's thread. `max_half_open` is the maximum number of connections that
  // have no answer yet; a further connection closes the oldest of them. Throws Error{network} that names the address
  // and port. The destructor may wait about 10 s for a munged that does not answer.
  CredentialListener(const net::HostPort& address, std::shared_ptr<Munge> munge, const Invitation& invitation,
                     std::function<bool()> open, std::size_t max_half_open = 1024);
  ~CredentialListener();
  CredentialListener(const CredentialListener&) = delete;
  CredentialListener& operator=(const CredentialListener&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Asks all places repeatedly, all at once, until a CredentialListener of this job answers at one of them. The listening
// rank may start later, and other programs may have its ports. After the deadline returns an empty result, and `tried`
// has the last error of each place. Blocks, also while munged answers. Throws like Interruption::check().
std::optional<Invitation> find_invitation(const std::string& job, const std::vector<net::HostPort>& places,
                                          Munge& munge, std::chrono::steady_clock::time_point deadline,
                                          std::string& tried);

}  // namespace anello::rendezvous
