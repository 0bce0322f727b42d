#include "ring/net/tcp_link.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cerrno>
#include <system_error>

namespace anello::net {
namespace {

// The maximum for one system call. More bytes would wait in the socket buffer and leave the cache, although data in the
// other direction could move in that time.
constexpr std::size_t kSliceBytes = 512 << 10;
constexpr std::size_t kMaxPieces = 512;

// Pieces in the kernel's format, together at most one slice.
struct Slice {
  std::array<iovec, kMaxPieces> parts;
  std::size_t count = 0, bytes = 0;

  template <class Piece>
  explicit Slice(std::span<const Piece> pieces) {
    for (; count < std::min(pieces.size(), kMaxPieces) && bytes < kSliceBytes; count++) {
      const std::size_t size = std::min(pieces[count].size(), kSliceBytes - bytes);
      parts[count] = {const_cast<std::byte*>(pieces[count].data()), size};
      bytes += size;
    }
  }
  msghdr message() {
    msghdr all{};
    all.msg_iov = parts.data();
    all.msg_iovlen = count;
    return all;
  }
};

std::size_t moved_or_throw(ssize_t bytes) {
  if (bytes >= 0) return std::size_t(bytes);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  throw Error(ErrorCode::network, std::system_category().message(errno));
}

}  // namespace

TcpLink::TcpLink(Descriptor socket) : socket_(std::move(socket)) {
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

// For one piece, send() and recv() cost less than sendmsg() and recvmsg().
std::size_t TcpLink::send_from(std::span<const ConstBytes> pieces) {
  Slice slice(pieces);
  if (slice.bytes == 0) return 0;
  if (slice.count == 1)
    return moved_or_throw(send(socket_.get(), slice.parts[0].iov_base, slice.parts[0].iov_len, MSG_NOSIGNAL));
  const msghdr message = slice.message();
  return moved_or_throw(sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
}

std::size_t TcpLink::recv_into(std::span<const Bytes> pieces) {
  if (const auto bytes = recv_until_end(pieces)) return *bytes;
  throw connection_closed();
}

std::optional<std::size_t> TcpLink::recv_until_end(std::span<const Bytes> pieces) {
  Slice slice(pieces);
  if (slice.bytes == 0) return 0;
  ssize_t bytes = 0;
  if (slice.count == 1) {
    bytes = recv(socket_.get(), slice.parts[0].iov_base, slice.parts[0].iov_len, 0);
  } else {
    msghdr message = slice.message();
    bytes = recvmsg(socket_.get(), &message, 0);
  }
  if (bytes == 0) return std::nullopt;
  return moved_or_throw(bytes);
}

bool TcpLink::has_arrived() {
  std::byte first{};
  const ssize_t bytes = recv(socket_.get(), &first, 1, MSG_PEEK);
  if (bytes == 0) throw connection_closed();
  return moved_or_throw(bytes) > 0;
}

}  // namespace anello::net
