// The addresses of a host that is given by name or by address. Any thread; blocks while the system resolves a name.
#pragma once
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::rendezvous {

// Returns the addresses in the order in which to try them. If there are none, returns an empty list and sets `failure`.
// Many systems give a host's own name a loopback address in /etc/hosts (127.0.1.1), at which other hosts cannot reach
// it. For such a name, the addresses of this host's interfaces come first.
std::vector<asio::ip::tcp::endpoint> resolve(const std::string& host, std::uint16_t port, asio::error_code& failure);

}  // namespace anello::rendezvous
