// The beginning of a connection with the rendezvous server, as the server sees it. On the server's event loop.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <optional>

#include "rendezvous/protocol.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// Handshake, within kHandshakeLimit, and first request, within `limit` or kHandshakeLimit, the longer of them: who has
// proved the secret may take longer, because a loaded host may stop it for seconds. Nothing if it only tried the
// server. `arrived` becomes the rank that has said that it is about to join. Throws HandshakeError. What is given by
// reference must outlive the coroutine.
asio::awaitable<std::optional<Join>> receive_join(asio::ip::tcp::socket& socket, const net::Credentials& credentials,
                                                  std::chrono::milliseconds limit, int& arrived);

}  // namespace anello::rendezvous
