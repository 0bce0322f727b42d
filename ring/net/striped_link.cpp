#include "ring/net/striped_link.hpp"

#include <algorithm>
#include <array>

namespace anello::net {
namespace {

constexpr std::size_t kMaxStripePieces = 16;

// What lies `skip` bytes behind the beginning, `most` bytes of it; cut short when there are too many pieces.
template <class Piece>
std::span<const Piece> part(std::span<const Piece> pieces, std::size_t skip, std::size_t most,
                            std::array<Piece, kMaxStripePieces>& out) {
  std::size_t used = 0;
  for (const Piece& piece : pieces) {
    if (most == 0 || used == out.size()) break;
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    out[used] = piece.subspan(skip, std::min(piece.size() - skip, most));
    most -= out[used++].size();
    skip = 0;
  }
  return std::span<const Piece>(out).first(used);
}

template <class Piece>
std::size_t bytes_of(std::span<const Piece> pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

StripedLink::StripedLink(std::vector<Descriptor> sockets) {
  lanes_.reserve(sockets.size());
  for (auto& socket : sockets) lanes_.emplace_back(std::move(socket));
}

// Goes on to the next lane only with a stripe that is complete, until one takes or has less than it could.
template <class Piece, class Move>
std::size_t StripedLink::each_stripe(Position& position, std::span<const Piece> pieces, Move move) {
  std::array<Piece, kMaxStripePieces> memory;
  std::size_t moved = 0;
  for (;;) {
    const std::span<const Piece> now = part(pieces, moved, position.left_bytes, memory);
    if (now.empty()) return moved;
    const std::size_t wanted = bytes_of(now);
    const std::size_t bytes = move(lanes_[position.lane], now);
    moved += bytes;
    position.left_bytes -= bytes;
    if (position.left_bytes == 0) position = {(position.lane + 1) % lanes_.size()};
    if (bytes < wanted) return moved;
  }
}

std::size_t StripedLink::send_from(std::span<const ConstBytes> pieces) {
  return each_stripe(sending_, pieces,
                     [](TcpLink& lane, std::span<const ConstBytes> now) { return lane.send_from(now); });
}

std::size_t StripedLink::recv_into(std::span<const Bytes> pieces) {
  return each_stripe(receiving_, pieces, [](TcpLink& lane, std::span<const Bytes> now) { return lane.recv_into(now); });
}

int StripedLink::descriptor(bool sending) const {
  return lanes_[(sending ? sending_ : receiving_).lane].descriptor(sending);
}

}  // namespace anello::net
