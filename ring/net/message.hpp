// What goes over a control connection: messages, each its length (u32), its kind (u8) and a body.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace anello {

enum class MessageKind : std::uint8_t { frame = 1, beat };

std::string message(MessageKind kind, std::string_view body);

// The next one: kind and body. Throws asio::system_error, Error{protocol} if more is claimed than there ever is.
asio::awaitable<std::string> read_message(asio::ip::tcp::socket& socket);

}  // namespace anello
