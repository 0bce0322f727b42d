// Accepting connections for as long as a listener is open. On its event loop's thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "ring/trace/rejected_connections.hpp"

namespace anello {

struct AcceptOptions {
  std::string who;  // in the log: "rank 3" cannot accept connections
  // Called when a connection cannot be accepted, as a rule for want of descriptors.
  std::function<void()> make_room;
  std::function<void(asio::ip::tcp::socket)> take;
  // Those turned away here. While they come, whoever knocks waits for up to kGathering.
  const RejectedConnections* rejected_connections = nullptr;
};
inline constexpr std::chrono::milliseconds kGathering{20};

// Hands over each connection. Where one cannot be accepted it makes room, waits and tries on, rather than spin or give
// up. Makes the acceptor non-blocking; that and the strangers outlive the loop.
asio::awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, AcceptOptions door);

asio::awaitable<void> pause(std::chrono::steady_clock::duration time);

}  // namespace anello
