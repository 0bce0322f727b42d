// A link over several TCP connections to one peer, for networks where one connection does not get the full bandwidth. A
// stripe of bytes goes over the first, the next over the second, and so on in turn. Both sides cut at the same
// positions, so nothing else is sent.
#pragma once
#include <cstddef>
#include <vector>

#include "ring/net/tcp_link.hpp"

namespace anello::net {

class StripedLink final : public link::Link {
 public:
  static constexpr std::size_t kStripeBytes = 64 << 10;

  // The connections in the same order on both sides, two at least.
  explicit StripedLink(std::vector<Descriptor> sockets);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  int descriptor(bool sending) const override;

 private:
  struct Position {
    std::size_t lane = 0, left_bytes = kStripeBytes;  // of the current stripe
  };
  template <class Piece, class Move>
  std::size_t each_stripe(Position& position, std::span<const Piece> pieces, Move move);

  std::vector<TcpLink> lanes_;
  Position sending_, receiving_;
};

}  // namespace anello::net
