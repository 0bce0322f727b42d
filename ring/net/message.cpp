#include "ring/net/message.hpp"

#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/use_awaitable.hpp>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/failure/control_message.hpp"

namespace anello {

using asio::use_awaitable;

std::string message(MessageKind kind, std::string_view body) {
  Writer writer;
  writer.u32(std::uint32_t(body.size() + 1)).u8(std::uint8_t(kind)).raw(body);
  return std::move(writer).take();
}

asio::awaitable<std::string> read_message(asio::ip::tcp::socket& socket) {
  std::array<char, 4> length;
  co_await asio::async_read(socket, asio::buffer(length), use_awaitable);
  const std::uint32_t bytes = Reader("control", {length.data(), length.size()}).u32();
  if (bytes > ControlMessage::kMaxBytes + 1)
    throw Error(ErrorCode::protocol, text("control message: claims ", bytes, " bytes"));
  std::string message(bytes, '\0');
  co_await asio::async_read(socket, asio::buffer(message), use_awaitable);
  co_return message;
}

}  // namespace anello
