// How ranks of a Slurm step get their job's secret from the rank that made it: that rank listens on a port that follows
// from the job's name (rendezvous/job_ports.hpp), and sends each connection a munge credential with the secret and the
// rendezvous server's port. Only processes of the same user can decode it, and they see which user made it. So neither
// side trusts the other's address, and a port that another process has taken is recognised.
#pragma once
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/invitation.hpp"
#include "rendezvous/munge.hpp"
#include "rendezvous/resolve.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

// Owns a thread and a listener. Any thread may construct and destroy it.
class CredentialListener {
 public:
  struct Limits {
    std::function<bool()> open;  // while it returns false, connections are closed without a credential
    int credentials;             // no more are made: each costs munged some work, and any process may connect
  };
  // Listens at `address` when the constructor returns. `open` is called on the listener's thread. Throws Error{network}
  // that names the address and port. The destructor waits for a munged that does not answer, about 10 s at most.
  CredentialListener(const net::HostPort& address, std::shared_ptr<Munge> munge, const Invitation& invitation,
                     Limits limits);
  ~CredentialListener();
  CredentialListener(const CredentialListener&) = delete;
  CredentialListener& operator=(const CredentialListener&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What a CredentialListener there sends. Blocks for `limit` at most for each address of the host, plus the time for
// munged. Throws Error{network} or {timed_out} if nothing listens there or if it sends no credential, {unauthorized} if
// this user cannot decode it, and {protocol} if it is of another kind.
Invitation receive_invitation(const std::vector<asio::ip::tcp::endpoint>& host, std::uint16_t port, Munge& munge,
                              std::chrono::milliseconds limit);

// Those ports of a host where a CredentialListener may be, for find_invitation(). The host's name is looked up once in
// each round until it is found, and then no more: a look-up can take seconds. One thread.
class CredentialSources {
 public:
  using Resolve = decltype(&resolve);

  // `munge` outlives this and the sources.
  CredentialSources(std::string host, std::vector<std::uint16_t> ports, Munge& munge, Resolve look_up = resolve)
      : host_(std::move(host)), ports_(std::move(ports)), munge_(munge), look_up_(look_up) {}
  std::vector<InvitationSource> operator()();

 private:
  std::string host_;
  std::vector<std::uint16_t> ports_;
  Munge& munge_;
  Resolve look_up_;
  std::vector<asio::ip::tcp::endpoint> addresses_;  // with any port
};

}  // namespace anello::rendezvous
