// Accepting connections for as long as a listener is open. On its event loop's thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

namespace anello {

// Hands over each connection. Out of descriptors it calls make_room, waits and tries on, rather than spin or give up;
// `who` cannot accept then, as the log says once. The acceptor outlives the loop.
asio::awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, std::string who, std::function<void()> make_room,
                                  std::function<void(asio::ip::tcp::socket)> take);

asio::awaitable<void> pause(std::chrono::steady_clock::duration time);

}  // namespace anello
