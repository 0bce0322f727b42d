// A rank's connection with the rendezvous server: finds the server among several addresses, proves the secret, sends
// requests and receives the answers. What they say is up to RendezvousClient, which owns it. One thread; all functions
// block.
#pragma once
#include <anello/settings.hpp>
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/protocol.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// What is known of a server that another rank runs.
struct KnownServer {
  std::string where;         // who runs it, for messages; empty: `anello rendezvous` does
  bool other_hosts = false;  // there are ranks on other hosts, so this rank must not listen on loopback
  bool listens = false;      // it listens already: if connections are refused, its process has ended
};

class ServerConnection {
 public:
  // Throws Error{configuration} if settings.rendezvous is not a list of addresses, and what net::require_usable()
  // throws.
  ServerConnection(const Settings& settings, net::Credentials credentials, KnownServer server);
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  // Connects and proves the secret at the first address where this job's server answers, and tries again until then. A
  // server that refuses this rank is an error at once if there is one address, and is passed over if there are several.
  // Throws Error{network} with every address tried at `deadline`, Error{unauthorized, protocol}, and Error{rendezvous}
  // if the server's process has ended.
  void connect(std::chrono::steady_clock::time_point deadline);

  std::string local_address() const;  // throws Error{network} if the connection has ended

  // Sends the request and returns the answer. Throws Error{timed_out} some seconds after `patience`, Error{network,
  // protocol}, and the failure that the server reports instead.
  Reply ask(const Request& request, std::chrono::milliseconds patience);
  // Without a request: throws if the server has reported a failure or does so within `patience`, or if the connection
  // has ended.
  void check(std::chrono::milliseconds patience);
  // The last request, without an answer. Does not throw if the connection has ended.
  void send_and_close(const Request& request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    std::string where, failure;
    bool cut_short = false;  // by the deadline
  };

  bool try_all(Clock::time_point deadline);
  bool try_host(const net::HostPort& host, Clock::time_point deadline);
  bool try_one(const asio::ip::tcp::endpoint& where, Clock::time_point deadline);
  void note(const Attempt& attempt);
  std::string tried() const;  // each address with its error
  asio::awaitable<void> open(const asio::ip::tcp::endpoint& where, std::chrono::milliseconds limit);
  asio::awaitable<void> connect_socket(const asio::ip::tcp::endpoint& where);
  asio::awaitable<void> receive(std::chrono::milliseconds limit, Reply& reply);
  asio::awaitable<void> send_and_receive(const Request& request, std::chrono::milliseconds limit, Reply& reply);
  void run(asio::awaitable<void> work);

  const Settings settings_;
  const net::Credentials credentials_;
  const KnownServer server_;
  const std::vector<net::HostPort> addresses_;
  asio::io_context context_{1};
  asio::ip::tcp::socket socket_{context_};
  std::chrono::milliseconds patience_{0};  // for a handshake with one of several addresses
  bool all_refused_ = false;               // by the systems of all addresses, at the last attempts
  std::string unresolved_;                 // the last name among them that did not resolve
  std::vector<Attempt> attempts_;          // the last at each address
  std::vector<Attempt> earlier_attempts_;  // those before
};

}  // namespace anello::rendezvous
