// How the launcher ends a world whose ranks have left the server: connects to one rank, which proposes the verdict to
// the others. A coroutine of the server's event loop.
#pragma once
#include <asio/awaitable.hpp>

#include "rendezvous/server/roster.hpp"
#include "ring/failure/control_message.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// Sends the verdict to one rank of `world`. Tries another rank every 10 ms, each for at most 1 s, until one has
// received it. So a rank whose process is stopped causes little delay. Does not throw.
asio::awaitable<void> send_abort_notice(Roster::Formed world, net::Credentials credentials, failure::Verdict verdict);

}  // namespace anello::rendezvous
