// The beginning of a connection with the rendezvous server, on the server's side. On the server's event loop.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <optional>

#include "rendezvous/protocol/protocol.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// Receives the handshake within kHandshakeLimit, and then the first request within the longer of `limit` and
// kHandshakeLimit. A peer that has proved the secret may take longer, because a loaded host may stop it for seconds.
// Returns nothing if the peer only tested the server. `arrived`: set to the number of a rank that has announced that it
// is about to join. `acceptable`: says whether a process with a correct proof may join. Throws HandshakeError. The
// arguments passed by reference must outlive the coroutine.
asio::awaitable<std::optional<Join>> receive_join(asio::ip::tcp::socket& socket, const net::Credentials& credentials,
                                                  std::chrono::milliseconds limit, net::Check acceptable, int& arrived);

}  // namespace anello::rendezvous
