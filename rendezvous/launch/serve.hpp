// The rendezvous server alone, for ranks that something else starts.
#pragma once
#include "rendezvous/server.hpp"

namespace anello::launch {

// Listens, prints "ANELLO_RENDEZVOUS=address:port" to standard output, and serves until SIGINT, SIGTERM or SIGHUP.
// Signals stay blocked afterwards. Throws what RendezvousServer does.
void serve(const ServerOptions& options);

}  // namespace anello::launch
