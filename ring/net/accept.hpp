// Accepts connections until the listener is closed. Runs on the thread of its event loop.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "ring/trace/rejected_connections.hpp"

namespace anello::net {

struct AcceptOptions {
  std::string name;  // a name for the log, such as "rank 3"
  // Called when a connection cannot be accepted, usually because no descriptor is left.
  std::function<void()> make_room;
  std::function<void(asio::ip::tcp::socket)> take;
  // Counts the rejected connections. While the count grows, connections are accepted in batches, one batch every
  // kGathering.
  const trace::RejectedConnections* rejected_connections = nullptr;
};
inline constexpr std::chrono::milliseconds kGathering{20};

// Passes each connection to take(). If a connection cannot be accepted, calls make_room(), waits and tries again. Makes
// the acceptor non-blocking. The acceptor and rejected_connections must outlive the loop.
asio::awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, AcceptOptions options);

asio::awaitable<void> pause(std::chrono::steady_clock::duration time);

}  // namespace anello::net
