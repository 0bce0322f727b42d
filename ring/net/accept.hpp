// Accepts connections for as long as a listener is open. On its event loop's thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "ring/trace/rejected_connections.hpp"

namespace anello::net {

struct AcceptOptions {
  std::string name;  // in the log: "rank 3" cannot accept connections
  // Called when a connection cannot be accepted, usually because no descriptor is left.
  std::function<void()> make_room;
  std::function<void(asio::ip::tcp::socket)> take;
  // Counts the connections rejected here. While it grows, connections are accepted in batches, every kGathering.
  const trace::RejectedConnections* rejected_connections = nullptr;
};
inline constexpr std::chrono::milliseconds kGathering{20};

// Passes each connection to take(). If one cannot be accepted, it makes room, waits and tries again. Makes the acceptor
// non-blocking. The acceptor and rejected_connections outlive the loop.
asio::awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, AcceptOptions options);

asio::awaitable<void> pause(std::chrono::steady_clock::duration time);

}  // namespace anello::net
