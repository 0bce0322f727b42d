// The addresses at which ranks of other hosts can reach a server of this process. Any thread.
#pragma once
#include <cstdint>
#include <string>

namespace anello::rendezvous {

// Returns "10.0.0.1:4711,10.1.0.1:4711", at most 256 bytes: all addresses of this host that other hosts may use, with
// bridges of containers last. If `iface` (ANELLO_IFACE) chooses an address, returns only this address. Returns loopback
// if all ranks are on this host, or if no other host can reach this one. Throws Error{network, configuration}.
std::string reachable_addresses(const std::string& iface, std::uint16_t port, bool one_host);

}  // namespace anello::rendezvous
