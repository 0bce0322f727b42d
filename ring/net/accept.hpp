// Accepting connections for as long as a listener is open. On its event loop's thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "ring/net/half_open.hpp"

namespace anello {

// Hands over each connection; `take` gives it a place among those that are half open. Out of descriptors the oldest of
// these is closed, and the loop waits and tries on, rather than spin or give up; `who` cannot accept then, as the log
// says once. Acceptor and `half_open` outlive the loop.
asio::awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, std::string who, HalfOpen& half_open,
                                  std::function<void(asio::ip::tcp::socket)> take);

asio::awaitable<void> pause(std::chrono::steady_clock::duration time);

}  // namespace anello
