// A rank's connection with the rendezvous server: finds the server among several addresses, proves the secret, sends
// requests and receives the answers. RendezvousClient, which owns it, decides on the contents. One thread; all
// functions block.
#pragma once
#include <anello/settings.hpp>
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/context.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// Describes a server that another rank runs.
struct KnownServer {
  std::string where;         // who runs the server, for messages; empty: `anello rendezvous` runs it
  bool other_hosts = false;  // true if there are ranks on other hosts, so that this rank must not listen on loopback
  bool listens = false;  // true if the server has listened before: if it now refuses connections, its process has ended
  int rank = -1;         // the rank that runs the server; -1: unknown
  // If this server is the successor of another server: the number of that server's last world. The successor has the
  // rank `rank` in this world.
  std::uint32_t generation = 0;
  std::uint64_t incarnation = 0;
};

// Thrown if the server has reported a failure instead of an answer: the start-up has failed, and all ranks have
// received the reason.
struct StartFailed : Error {
  using Error::Error;
};
// Thrown if the rank must look for its server again, because the server that it found is busy with another start, or
// has ended.
struct MeetAgain : Error {
  using Error::Error;
};

class ServerConnection {
 public:
  // Throws the errors of net::require_usable(). Also throws Error{configuration} if settings.rendezvous is not a list
  // of addresses.
  ServerConnection(const Settings& settings, net::Credentials credentials, KnownServer server);
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  // Connects and proves the secret at the first address where this job's server answers, and tries again until a server
  // answers. If a server refuses this rank, and there is only one address, this is an error at once; if there are
  // several addresses, the next one is tried. At `deadline` throws Error{network} with every address tried. Throws
  // Error{unauthorized, protocol}. If the process of the rank that runs the server has ended, throws Error{rendezvous},
  // or MeetAgain if this rank was never connected with that process.
  void connect(std::chrono::steady_clock::time_point deadline);

  std::string local_address() const;  // throws Error{network} if the connection has ended

  // Sends the request and returns the answer. Throws Error{timed_out} some seconds after `patience`, and Error{network,
  // protocol}. If the server reports a failure in place of an answer, throws this failure.
  Reply ask(const Request& request, std::chrono::milliseconds patience);
  // Sends no request. Throws if the server has reported a failure or does so within `patience`, or if the connection
  // has ended.
  void check(std::chrono::milliseconds patience);
  // True if the server has not ended the connection. After a failed request, this means that the failure was in this
  // process.
  bool is_intact();
  // Sends a request without waiting for an answer. Does not throw if the connection has ended.
  void send(const Request& request);
  // Gives the connection to another event loop. Afterwards this object has no connection.
  asio::ip::tcp::socket release(asio::io_context& context);
  // Sends the last request, which has no answer. Does not throw if the connection has ended.
  void send_and_close(const Request& request);

 private:
  using Clock = std::chrono::steady_clock;
  asio::awaitable<void> receive(std::chrono::milliseconds limit, Reply& reply);
  asio::awaitable<void> send_and_receive(const Request& request, std::chrono::milliseconds limit, Reply& reply);
  void run(asio::awaitable<void> work);

  const Settings settings_;
  const net::Credentials credentials_;
  const KnownServer server_;
  const std::vector<net::HostPort> addresses_;
  net::Context context_;
  asio::ip::tcp::socket socket_{context_};
  bool was_connected_ = false;
};

}  // namespace anello::rendezvous
