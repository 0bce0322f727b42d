// Connections between the ranks of one world: listens, and connects to peers. Used on the background thread. A
// connection passes the handshake before it is handed on. Does not depend on the data on the connections.
#pragma once
#include <anello/settings.hpp>
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ring/base/identity.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/half_open.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/sockets.hpp"
#include "ring/trace/rejected_connections.hpp"

namespace anello::net {

// The addresses of a rank.
struct Endpoint {
  std::string address;  // numeric
  std::uint16_t port = 0;
  std::string host;  // name for error messages
  struct Place {
    std::string address;
    std::uint16_t port = 0;
  };
  std::vector<Place> further;  // the addresses of further interfaces, for data

  Place at(std::size_t way) const { return way == 0 ? Place{address, port} : further[way - 1]; }
};

class PeerConnections {
 public:
  using Socket = asio::ip::tcp::socket;
  using Accepted = std::function<void(const Claim&, Socket)>;
  // Called when another rank has connected and no descriptor is left, because then the next rank could not connect.
  using Exhausted = std::function<void(int error)>;
  // Returns false if the peer must connect again later. The peer does not treat this as a failure.
  using HasRoom = std::function<bool(const Claim&)>;
  // Returns false if the connection is no longer needed.
  using Wanted = std::function<bool()>;
  static constexpr auto kNoDeadline = std::chrono::steady_clock::time_point::max();

  // The constructor listens at the identity's addresses before it returns. `rejected_connections` counts rejected
  // connections. `handshake_limit`: for one attempt to connect. Throws Error{network, configuration}. Any thread.
  PeerConnections(asio::io_context& context, const Identity& identity, const Settings& settings,
                  trace::RejectedConnections& rejected_connections,
                  std::chrono::milliseconds handshake_limit = kConnectHandshakeLimit);

  Endpoint endpoint() const;

  // From now on accepts peers, and closes connections that only ping. Calls the functions on the background thread. Any
  // thread may call open(), once. Throws Error{network} if a peer's address is not numeric.
  void open(
      std::vector<Endpoint> peers, Accepted accepted, Exhausted exhausted = [](int) {},
      HasRoom has_room = [](const Claim&) { return true; });

  // The number of interfaces that carry data between this rank and `peer`: the smaller of the two ranks' numbers of
  // interfaces; 1 if both are on one host. Call only after open().
  std::size_t ways(int peer) const;

  // Connects to `peer`. While the connection is wanted, tries again until `deadline`, unless the peer refuses. `lane`:
  // the connection's number among those to the peer; lanes use the interfaces (ways()) in turn. On the background
  // thread. Throws an Error whose rank is the peer, or this rank if this rank has no descriptor left.
  asio::awaitable<Socket> connect(
      int peer, Role role, std::uint32_t lane, std::uint64_t group, std::chrono::steady_clock::time_point deadline,
      Wanted wanted = [] { return true; });

  // Connects to `peer` once, and closes that connection again. On the background thread.
  enum class Answer {
    none,     // no answer within the limit, or the network reports that it cannot reach the peer's host
    refusal,  // no process listens at the peer's address any more
    any       // the peer's process exists, even if it rejected the connection
  };
  asio::awaitable<Answer> ping(int peer, std::size_t way, std::chrono::milliseconds limit);

  // Returns the peer's address on its interface number `way`: "10.0.0.1 port 4711".
  std::string place(int peer, std::size_t way) const;

  // Accepts no more connections. On the background thread.
  void close();

 private:
  asio::awaitable<void> let_in(Socket socket);
  asio::awaitable<Socket> try_connect(Claim claim);
  asio::awaitable<void> connect_socket(Socket& socket, int peer, std::size_t way, asio::error_code& error);
  asio::ip::tcp::acceptor listening_at(const std::string& address, const PortRange& ports);
  std::optional<Rejection> acceptable(const Claim& claim) const;
  void keep_spare();
  asio::error_code listen(asio::ip::tcp::acceptor& acceptor, const asio::ip::tcp::endpoint& endpoint) const;
  void prepare(asio::ip::tcp::acceptor::native_handle_type descriptor) const;  // call before connect() and listen()

  asio::io_context& context_;
  int rank_;
  std::uint32_t generation_;
  std::uint64_t incarnation_;
  Credentials credentials_;
  std::string congestion_;
  int buffer_bytes_;
  std::string host_;
  std::vector<asio::ip::tcp::acceptor> acceptors_;  // one for each address
  std::vector<Endpoint> peers_;
  Accepted accepted_;
  Exhausted exhausted_;
  HasRoom has_room_;
  std::chrono::milliseconds handshake_limit_;
  SpareDescriptor spare_;
  HalfOpen handshakes_;
  trace::RejectedConnections& rejected_;
};

}  // namespace anello::net
