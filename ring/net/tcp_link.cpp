#include "ring/net/tcp_link.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <asio/buffer.hpp>

namespace anello::net {
namespace {

// More bytes at once would wait in the socket buffer and leave the cache, while the other direction could move.
constexpr std::size_t kSliceBytes = 512 << 10;
constexpr std::size_t kMaxPieces = 16;

// The pieces as Asio wants them, a slice at most.
template <class Buffer, class Piece>
std::size_t slice(std::span<const Piece> pieces, std::array<Buffer, kMaxPieces>& buffers) {
  std::size_t used = 0, bytes = 0;
  for (; used < std::min(pieces.size(), kMaxPieces) && bytes < kSliceBytes; used++) {
    buffers[used] = Buffer(pieces[used].data(), std::min(pieces[used].size(), kSliceBytes - bytes));
    bytes += buffers[used].size();
  }
  return used;
}

std::size_t moved_or_throw(std::size_t bytes, const asio::error_code& error) {
  if (!error) return bytes;
  if (error == asio::error::would_block || error == asio::error::try_again || error == asio::error::interrupted)
    return 0;
  throw Error(ErrorCode::network, error == asio::error::eof ? "the connection was closed" : error.message());
}

}  // namespace

TcpLink::TcpLink(asio::ip::tcp::socket socket) : socket_(std::move(socket)), descriptor_(socket_.native_handle()) {
  socket_.non_blocking(true);
}

// For one piece, send() and recv() cost less than sendmsg() and recvmsg().
std::size_t TcpLink::send_from(std::span<const ConstBytes> pieces) {
  std::array<asio::const_buffer, kMaxPieces> buffers;
  const std::size_t used = slice(pieces, buffers);
  asio::error_code error;
  const std::size_t bytes =
      used == 1 ? socket_.write_some(buffers[0], error) : socket_.write_some(std::span(buffers.data(), used), error);
  return moved_or_throw(bytes, error);
}

std::size_t TcpLink::recv_into(std::span<const Bytes> pieces) {
  std::array<asio::mutable_buffer, kMaxPieces> buffers;
  const std::size_t used = slice(pieces, buffers);
  asio::error_code error;
  const std::size_t bytes =
      used == 1 ? socket_.read_some(buffers[0], error) : socket_.read_some(std::span(buffers.data(), used), error);
  return moved_or_throw(bytes, error);
}

}  // namespace anello::net
