// How the launcher ends a world that runs without the server: it connects to one rank, which proposes the verdict to
// the others. A coroutine of the server's event loop.
#pragma once
#include <asio/awaitable.hpp>

#include "rendezvous/roster.hpp"
#include "ring/failure/control_message.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// Tries the ranks of `world`, one every 10 ms and each for at most 300 ms, until one has received the verdict: stopped
// ranks delay it little. Does not throw.
asio::awaitable<void> send_abort_notice(Roster::Formed world, net::Credentials credentials, failure::Verdict verdict);

}  // namespace anello::rendezvous
