// Accepting connections for as long as a listener is open. On its event loop's thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "ring/trace/strangers.hpp"

namespace anello {

struct Door {
  std::string who;  // cannot accept, as the log says
  // Called when there are no descriptors left.
  std::function<void()> make_room;
  std::function<void(asio::ip::tcp::socket)> take;
  // Those turned away here. While they come, whoever knocks waits for up to kGathering.
  const Strangers* strangers = nullptr;
};
inline constexpr std::chrono::milliseconds kGathering{20};

// Hands over each connection. Out of descriptors it makes room, waits and tries on, rather than spin or give up. The
// acceptor and the strangers outlive the loop.
asio::awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, Door door);

asio::awaitable<void> pause(std::chrono::steady_clock::duration time);

}  // namespace anello
