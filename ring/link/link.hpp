// A link: a pipe of bytes each way between this rank and one other, in order and without loss. What lies beneath
// (TCP, shared memory, memory in a simulation) is its own affair; tensors and operations are unknown to it. Used by one
// thread at a time, that which moves its group's data. Holds at least 64 bytes each way: what opens an operation, and
// one element.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "ring/base/bytes.hpp"
#include "ring/link/waiter.hpp"

namespace anello::link {

// What a rank waits for: there is room to send, bytes have come, or the other side has replied.
enum class Wanted { room, bytes, reply };

class Link {
 public:
  virtual ~Link() = default;

  // Moves what can be moved now, from or into the pieces in order, and returns how many bytes that was; 0 when nothing
  // can. Never blocks. Throws Error{network} when the other end is gone.
  virtual std::size_t send_from(std::span<const ConstBytes> pieces) = 0;
  virtual std::size_t recv_into(std::span<const Bytes> pieces) = 0;
  // Whether a short piece is sent faster than the same bytes in several.
  virtual bool prefers_one_piece() const { return true; }
  // How much send_from() copies at most: it needs no pieces beyond this.
  virtual std::size_t send_bytes() const { return SIZE_MAX; }

  // For links through memory: where the next of these bytes go, empty if there is no room; put() sends what was written
  // there. Nothing if send_from() must be called, or is faster for so few.
  virtual std::optional<Bytes> room(std::size_t /*bytes*/) { return std::nullopt; }
  virtual void put(std::size_t /*bytes*/) {}

  // Received bytes where they lie, for links that can show them: peek() gives a run of them, empty if there are none,
  // and consume() gives them back. What follows begin() begins a cache line, if the other side began likewise.
  virtual bool peeks() const { return false; }
  virtual Bytes peek() { return {}; }
  virtual void consume(std::size_t /*bytes*/) {}

  // Replies, for links through memory: what is sent after keep(), until begin(), stays where it lies. The other side
  // may write over it before it consumes it; replies() gives a run of what has been consumed, and take() gives it back.
  // reply_bytes: how much can be there at a time; 0 if there are no replies.
  virtual std::size_t reply_bytes() const { return 0; }
  virtual void keep() {}
  virtual Bytes replies() { return {}; }
  virtual void take(std::size_t /*bytes*/) {}

  // Between two operations: whether bytes of the next one have come. Throws as recv_into() does.
  virtual bool has_arrived() = 0;

  // The next byte in this direction is the first of an operation. If sending may refer, then bytes may count as sent
  // only when the other side has taken them, from where they lie.
  virtual void begin(bool /*sending*/, bool /*may_refer*/) {}

  // The operation is given up: bytes that count as not sent may change from now on, so the other side must not use what
  // it finds there. Nothing is sent on this link any more.
  virtual void revoke() {}

  // Gives the waiter the descriptors that poll() finds ready when what is wanted is there. A link without
  // descriptors rings this rank's bell then. False if it is there already.
  virtual bool want(Wanted wanted, Waiter& waiter) = 0;
};

}  // namespace anello::link
