// How whoever started a world ends it: a connection of its own to one of its ranks, which proposes the verdict to the
// others. Coroutine of the server's loop.
#pragma once
#include <asio/awaitable.hpp>

#include "rendezvous/roster.hpp"
#include "ring/failure/control_message.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

// Tells the ranks, one after the other, until one has heard it; each is given a little time. Does not throw.
asio::awaitable<void> command(Roster::Formed world, Credentials credentials, Verdict verdict);

}  // namespace anello::rendezvous
