#include "ring/net/striped_link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::net {
namespace {

constexpr std::size_t kMaxStripePieces = 16;

// A connection is ready for a stripe when its socket has fewer unsent bytes than half of this number. With a higher
// limit, data would wait in a slow connection although a fast one could send it.
constexpr int kMaxUnsentBytes = 2 * StripedLink::kStripeBytes;

// Appends pieces to `out`, whose first `used` entries are in use. The new pieces are the memory of `pieces` from byte
// `skip` on: at most `max_bytes` bytes, and at most the number of pieces for which `out` has room.
template <class Piece>
std::span<const Piece> part(std::span<const Piece> pieces, std::size_t skip, std::size_t max_bytes,
                            std::span<Piece> out, std::size_t used = 0) {
  for (const Piece& piece : pieces) {
    if (max_bytes == 0 || used == out.size()) break;
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    out[used] = piece.subspan(skip, std::min(piece.size() - skip, max_bytes));
    max_bytes -= out[used++].size();
    skip = 0;
  }
  return out.first(used);
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
  for (auto& socket : sockets) {
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMaxUnsentBytes, sizeof kMaxUnsentBytes);
    lanes_.emplace_back(std::move(socket));
  }
}

// Returns the connection with the lowest number that can send now. Small messages never fill the first connection, so
// all small messages use this connection.
std::optional<std::size_t> StripedLink::lane_with_room() {
  for (std::size_t lane = 0; lane < lanes_.size(); lane++) {
    pollfd polled{lanes_[lane].link.descriptor(), POLLOUT, 0};
    if (poll(&polled, 1, 0) > 0) return lane;
  }
  return std::nullopt;
}

bool StripedLink::begin_sending(std::size_t bytes) {
  if (bytes == 0) return false;
  const std::optional<std::size_t> lane = lane_with_room();
  if (!lane) return false;
  sending_ = {*lane, std::min(bytes, kStripeBytes)};
  const std::string head = Writer().u32(sent_++).u32(std::uint32_t(sending_->left_bytes)).bytes();
  std::ranges::copy(std::as_bytes(std::span(head)), head_.begin());
  unsent_head_bytes_ = kHeadBytes;
  return true;
}

std::size_t StripedLink::send_from(std::span<const ConstBytes> pieces) {
  std::array<ConstBytes, 1 + kMaxStripePieces> memory;
  std::size_t moved = 0;
  const std::size_t offered = bytes_of(pieces);
  while (sending_ || begin_sending(offered - moved)) {
    memory[0] = std::span(head_).last(unsent_head_bytes_);
    const std::size_t ahead = unsent_head_bytes_ > 0 ? 1 : 0;
    const auto now = part(pieces, moved, sending_->left_bytes, std::span<ConstBytes>(memory), ahead);
    if (now.empty()) break;
    const std::size_t wanted = bytes_of(now);
    const std::size_t bytes = lanes_[sending_->lane].link.send_from(now);
    const std::size_t of_head = std::min(bytes, unsent_head_bytes_);
    unsent_head_bytes_ -= of_head;
    moved += bytes - of_head;
    sending_->left_bytes -= bytes - of_head;
    if (sending_->left_bytes == 0) sending_.reset();
    if (bytes < wanted) break;
  }
  return moved;
}

// Returns true if the head of the lane's next stripe is complete. The other side may close this connection after it has
// sent everything, although data of another connection is still on its way.
bool StripedLink::receive_head(Lane& lane) {
  if (!lane.is_awaited()) return !lane.ended;
  const Bytes rest = std::span(lane.head).subspan(lane.head_bytes);
  const std::optional<std::size_t> bytes = lane.link.recv_until_end({&rest, 1});
  if (!bytes && lane.head_bytes > 0) throw connection_closed();
  lane.ended = !bytes;
  lane.head_bytes += bytes.value_or(0);
  return lane.head_bytes == kHeadBytes;
}

// Returns the next stripe if it has begun to arrive over this connection.
std::optional<StripedLink::Stripe> StripedLink::next_in(std::size_t lane) {
  Lane& its = lanes_[lane];
  if (!receive_head(its)) return std::nullopt;
  Reader reader("stripe", {reinterpret_cast<const char*>(its.head.data()), kHeadBytes});
  const std::uint32_t number = reader.u32();
  const std::size_t bytes = reader.u32();
  if (bytes == 0 || bytes > kStripeBytes)
    throw Error(ErrorCode::protocol,
                text("received a stripe of ", bytes, " bytes; at most ", kStripeBytes, " are allowed"));
  if (number != received_) return std::nullopt;
  its.head_bytes = 0;
  return Stripe{lane, bytes};
}

bool StripedLink::begin_receiving() {
  for (std::size_t lane = 0; lane < lanes_.size() && !receiving_; lane++) receiving_ = next_in(lane);
  received_ += receiving_.has_value();
  if (!receiving_ && std::ranges::none_of(lanes_, &Lane::is_awaited)) throw connection_closed();
  return receiving_.has_value();
}

std::size_t StripedLink::recv_into(std::span<const Bytes> pieces) {
  std::array<Bytes, kMaxStripePieces> memory;
  std::size_t moved = 0;
  const std::size_t asked = bytes_of(pieces);
  while (moved < asked && (receiving_ || begin_receiving())) {
    const auto now = part(pieces, moved, receiving_->left_bytes, std::span<Bytes>(memory));
    const std::size_t wanted = bytes_of(now);
    const std::size_t bytes = lanes_[receiving_->lane].link.recv_into(now);
    moved += bytes;
    receiving_->left_bytes -= bytes;
    if (receiving_->left_bytes == 0) receiving_.reset();
    if (bytes < wanted) break;
  }
  return moved;
}

bool StripedLink::holds_next(const Lane& lane) const {
  if (lane.head_bytes < kHeadBytes) return false;
  return Reader("stripe", {reinterpret_cast<const char*>(lane.head.data()), kHeadBytes}).u32() == received_;
}

// Also returns false if all connections have ended, because then recv_into() must be called: it throws.
bool StripedLink::want(link::Wanted wanted, link::Waiter& waiter) {
  const bool sending = wanted == link::Wanted::room;
  const std::optional<Stripe>& stripe = sending ? sending_ : receiving_;
  if (stripe) return lanes_[stripe->lane].link.want(wanted, waiter);
  bool wants = false;
  for (Lane& lane : lanes_) {
    if (!sending && holds_next(lane)) return false;
    if (sending || lane.is_awaited()) wants = lane.link.want(wanted, waiter);
  }
  return wants;
}

}  // namespace anello::net
