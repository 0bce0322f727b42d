#include "rendezvous/frames.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

asio::awaitable<void> append(asio::ip::tcp::socket& socket, std::string& bytes, std::size_t count) {
  const std::size_t have = bytes.size();
  bytes.resize(have + count);
  asio::error_code failure;
  co_await asio::async_read(socket, asio::buffer(bytes.data() + have, count),
                            asio::redirect_error(asio::use_awaitable, failure));
  if (failure == asio::error::eof) throw Error(ErrorCode::network, "the connection was closed");
  if (failure) throw Error(ErrorCode::network, failure.message());
}

}  // namespace

std::string framed(std::string_view body) {
  Writer frame;
  frame.str(body);
  return std::move(frame).take();
}

asio::awaitable<std::string> read_frame(asio::ip::tcp::socket& socket, std::size_t max_bytes) {
  std::string header, body;
  co_await append(socket, header, sizeof(std::uint32_t));
  const std::size_t claimed = Reader("frame", header).u32();
  if (claimed > max_bytes)
    throw Error(ErrorCode::protocol, text("a frame claims ", claimed, " bytes where ", max_bytes, " are allowed"));
  while (body.size() < claimed) co_await append(socket, body, std::min(kPieceBytes, claimed - body.size()));
  co_return body;
}

}  // namespace anello::rendezvous
