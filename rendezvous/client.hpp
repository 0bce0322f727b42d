// A rank's side of the rendezvous: it finds the server, joins, exchanges and leaves. init() uses it while it makes the
// world. One thread; all functions block.
#pragma once
#include <anello/settings.hpp>
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol.hpp"
#include "ring/net/addresses.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello {

class RendezvousClient {
 public:
  // What is known of a server that another rank runs.
  struct Server {
    std::string where;         // who runs it, for messages; empty: `anello rendezvous` does
    bool other_hosts = false;  // there are ranks on other hosts, so this rank must not listen on loopback
    bool listens = false;      // it listens already: if connections are refused, its process has ended
  };

  // Connects to settings.rendezvous, and tries again until the server is there; then joins. Blocks until all ranks have
  // joined, for at most start_timeout plus the time that the system needs to resolve the name.
  // Of several addresses with commas, it joins at the first where this job's server answers. A server that refuses this
  // rank is an error at once if there is one address, and is passed over if there are several.
  // Connects and joins again if the connection ends before that. Throws Error{configuration}, Error{network} with every
  // address tried, Error{unauthorized}, Error{protocol}, and Error{rendezvous} that names the ranks that are missing or
  // have failed.
  RendezvousClient(const Settings& settings, std::string secret, Server server);
  RendezvousClient(const Settings& settings, std::string secret)
      : RendezvousClient(settings, std::move(secret), Server()) {}
  // Connects and proves the secret, but does not join. Gives up after 5 s, or after start_timeout if that is less.
  // Throws as the constructor does.
  static void try_server(const Settings& settings, std::string secret, Server server);
  static void try_server(const Settings& settings, std::string secret) {
    try_server(settings, std::move(secret), Server());
  }
  ~RendezvousClient();  // without leave(): the server reports to the other ranks that this one ended
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  const Identity& identity() const { return identity_; }

  // Sends this rank's blob, at most 64 KiB, and returns those of all ranks, by rank. Blocks until every rank has sent
  // one (Exchange in ring/world/bootstrap.hpp). Exchanging empty blobs is a barrier.
  std::vector<std::string> exchange(std::string blob);

  // Between exchanges: throws if the server has reported a failure or does so within `patience`, or if the connection
  // with it has ended.
  void check(std::chrono::milliseconds patience);

  // This rank has started and needs the server no longer. `port` is where it listens for other ranks; 0: nowhere.
  void leave(std::uint16_t port = 0);
  // This rank could not start: the server sends the reason to the other ranks. Does not throw.
  void fail(std::string_view reason) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct NotJoined {};

  RendezvousClient(const Settings& settings, std::string secret, Server server, NotJoined);
  void connect_and_join(Clock::time_point deadline);
  void connect(Clock::time_point deadline);
  bool try_all(Clock::time_point deadline);
  bool try_host(const net::HostPort& host, Clock::time_point deadline);
  bool try_one(const asio::ip::tcp::endpoint& where, Clock::time_point deadline);
  asio::awaitable<void> open(const asio::ip::tcp::endpoint& where, std::chrono::milliseconds limit);
  asio::awaitable<void> connect_socket(const asio::ip::tcp::endpoint& where);
  void join(std::chrono::milliseconds patience);
  std::vector<std::string> own_addresses() const;
  rendezvous::Reply ask(const rendezvous::Request& request, std::chrono::milliseconds patience);
  asio::awaitable<void> receive(std::chrono::milliseconds limit, rendezvous::Reply& reply);
  asio::awaitable<void> send_and_receive(const rendezvous::Request& request, std::chrono::milliseconds limit,
                                         rendezvous::Reply& reply);
  void send_and_close(const rendezvous::Request& request);
  void run(asio::awaitable<void> work);

  const Settings settings_;
  const Server server_;
  const std::vector<net::HostPort> addresses_;
  const std::vector<net::Interface> interfaces_;  // listed before the server waits for this rank to join
  asio::io_context context_{1};
  asio::ip::tcp::socket socket_{context_};
  std::chrono::milliseconds patience_{0};  // for a handshake with one of several addresses
  bool all_refused_ = false;               // by the systems of all addresses, at the last attempts
  std::string unresolved_;                 // the last name among them that did not resolve
  std::string tried_;                      // the addresses of the last attempts, each with its error
  Identity identity_;
};

}  // namespace anello
