// Where the rendezvous server listens, and the address at which ranks reach it. Any thread. endpoint_to_listen_on()
// blocks while the system resolves a name.
#pragma once
#include <asio/ip/tcp.hpp>
#include <string>

#include "rendezvous/server/server.hpp"

namespace anello::rendezvous {

// Throws Error{configuration} if the address in the options is not an address of a host, or if it is not loopback and
// there is no secret.
asio::ip::tcp::endpoint endpoint_to_listen_on(const ServerOptions& options);

// Returns a numeric address for ranks. If `listening` means all addresses, returns one that other hosts can use, if
// this host has one.
std::string usable_address(const asio::ip::address& listening);

}  // namespace anello::rendezvous
