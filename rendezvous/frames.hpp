// Frames on a socket: a length (u32, little-endian), then that many bytes. Coroutines on the socket's executor.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace anello::rendezvous {

std::string framed(std::string_view body);

// The next frame's body. Memory is taken as the bytes come, not as they are claimed.
// Throws Error{network} (also at the end of the connection), Error{protocol} if more than `max_bytes` are claimed.
asio::awaitable<std::string> read_frame(asio::ip::tcp::socket& socket, std::size_t max_bytes);

}  // namespace anello::rendezvous
