// A link over several TCP connections to one peer: over several interfaces, or in a network where one connection does
// not get the full bandwidth. Cuts the bytes into stripes, and sends each stripe over the first connection that is
// ready for it. So each connection carries data at its own rate, and small messages use only the first connection. A
// stripe begins with its number and its size; the other side takes the stripes in the order of their numbers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ring/net/tcp_link.hpp"

namespace anello::net {

class StripedLink final : public link::Link {
 public:
  static constexpr std::size_t kStripeBytes = 64 << 10;
  // The head: the stripe's number from 0 on (u32), and the size of its data, at most kStripeBytes (u32).
  static constexpr std::size_t kHeadBytes = 8;

  // There must be at least two connections, in the same order on both sides.
  explicit StripedLink(std::vector<Descriptor> sockets);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  bool has_arrived() override { return receiving_ || begin_receiving(); }
  bool want(link::Wanted wanted, link::Waiter& waiter) override;

 private:
  using Head = std::array<std::byte, kHeadBytes>;
  struct Lane {
    explicit Lane(Descriptor socket) : link(std::move(socket)) {}
    TcpLink link;
    Head head{};                 // head of the next stripe that arrives here
    std::size_t head_bytes = 0;  // received bytes of the head
    bool ended = false;          // the other side has closed this connection, after a complete stripe
    // True if the link's next stripe may still arrive on this connection. If a whole head waits here, it belongs to a
    // later stripe, so the next one comes over another connection.
    bool is_awaited() const { return !ended && head_bytes < kHeadBytes; }
  };
  // The stripe that is being sent or received. Its last `left_bytes` have not moved yet.
  struct Stripe {
    std::size_t lane;
    std::size_t left_bytes;
  };

  std::optional<std::size_t> lane_with_room();
  bool begin_sending(std::size_t bytes);
  bool begin_receiving();
  bool receive_head(Lane& lane);
  std::optional<Stripe> next_in(std::size_t lane);
  bool holds_next(const Lane& lane) const;

  std::vector<Lane> lanes_;
  std::optional<Stripe> sending_, receiving_;
  std::uint32_t sent_ = 0, received_ = 0;  // number of stripes, including one that is in progress
  Head head_{};                            // head of the stripe that is being sent
  std::size_t unsent_head_bytes_ = 0;
};

}  // namespace anello::net
