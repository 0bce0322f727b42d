#include "ring/net/message_channel.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/spawn.hpp"

namespace anello::net {

using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

asio::awaitable<void> append(tcp::socket& socket, std::string& bytes, std::size_t count, std::string_view connection) {
  const std::size_t have = bytes.size();
  bytes.resize(have + count);
  asio::error_code failure;
  co_await asio::async_read(socket, asio::buffer(bytes.data() + have, count), redirect_error(use_awaitable, failure));
  if (failure == asio::error::eof) throw ConnectionClosed(ErrorCode::network, text(connection, " was closed"));
  if (failure == asio::error::connection_reset) throw ConnectionClosed(ErrorCode::network, failure.message());
  if (failure) throw Error(ErrorCode::network, failure.message());
}

}  // namespace

std::string framed(std::string_view body) {
  return Writer().str(body).bytes();
}

std::string message(MessageKind kind, std::string_view body) {
  Writer writer;
  writer.u32(std::uint32_t(body.size() + 1)).u8(std::uint8_t(kind)).raw(body);
  return std::move(writer).take();
}

asio::awaitable<std::string> read_message(tcp::socket& socket, std::size_t max_bytes, std::string_view connection) {
  std::string header, body;
  co_await append(socket, header, sizeof(std::uint32_t), connection);
  const std::size_t claimed = Reader("message", header).u32();
  if (claimed > max_bytes)
    throw Error(ErrorCode::protocol, text("message: claims ", claimed, " bytes, the limit is ", max_bytes));
  while (body.size() < claimed) co_await append(socket, body, std::min(kPieceBytes, claimed - body.size()), connection);
  co_return body;
}

MessageChannel::MessageChannel(Socket socket) : socket_(std::move(socket)) {
  asio::error_code ended;
  socket_.non_blocking(true, ended);
}

void MessageChannel::send(Message message) {
  if (finished_) return;
  std::size_t sent = 0;
  if (!sending_) {
    asio::error_code failure;
    sent = socket_.write_some(asio::buffer(*message), failure);
    if (sent == message->size() || (failure && failure != asio::error::would_block)) return;
  }
  outbox_.push_back(std::move(message));
  if (sending_) return;
  sending_ = true;
  spawn(socket_.get_executor(), drain(sent));
}

asio::awaitable<void> MessageChannel::drain(std::size_t sent) {
  const auto self = shared_from_this();
  asio::error_code failure;
  while (!outbox_.empty() && !failure) {
    const Message message = std::move(outbox_.front());
    outbox_.pop_front();
    const auto rest = asio::buffer(*message) + std::exchange(sent, 0);
    co_await asio::async_write(socket_, rest, redirect_error(use_awaitable, failure));
  }
  outbox_.clear();
  sending_ = false;
  if (finished_) socket_.shutdown(tcp::socket::shutdown_send, failure);
}

void MessageChannel::finish(std::chrono::milliseconds limit) {
  finished_ = true;
  end_.emplace(socket_, limit);
  asio::error_code ignored;
  if (!sending_) socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void MessageChannel::close() {
  asio::error_code ignored;
  socket_.close(ignored);
  end_.reset();
}

}  // namespace anello::net
