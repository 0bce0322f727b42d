// The addresses of a host that is given by name or by address. Any thread; blocks while the system resolves the name.
#pragma once
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::rendezvous {

// Returns the addresses in the order in which to try them; empty, with `failure` set, if there is none. Many systems
// give a host's own name a loopback address in /etc/hosts (127.0.1.1), where other hosts cannot reach it: for such a
// name the addresses of this host's interfaces come first.
std::vector<asio::ip::tcp::endpoint> resolve(const std::string& host, std::uint16_t port, asio::error_code& failure);

}  // namespace anello::rendezvous
