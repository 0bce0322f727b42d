// A link: a pipe of bytes in each direction between this rank and one other rank, in order and without loss. It hides
// its transport (TCP, shared memory, or memory in a simulation), and does not depend on tensors or operations. Used by
// one thread at a time: the thread that moves its group's data. It buffers at least 64 bytes in each direction, enough
// for the signature of an operation and one element.
#pragma once
#include <cstdint>
#include <span>

#include "ring/base/bytes.hpp"
#include "ring/link/waiter.hpp"

namespace anello::link {

// The event for which a rank waits: there is room to send, bytes have arrived, or the other side has replied.
enum class Wanted { room, bytes, reply };

class MemoryLink;

class Link {
 public:
  virtual ~Link() = default;

  // Returns this link if it goes through memory (memory_link.hpp), otherwise null. The answer never changes.
  virtual MemoryLink* memory() { return nullptr; }

  // Moves as many bytes as possible now, from or into the pieces in order, and returns their number; 0 if nothing can
  // move. Never blocks. Throws Error{network} if the other end has closed.
  virtual std::size_t send_from(std::span<const ConstBytes> pieces) = 0;
  virtual std::size_t recv_into(std::span<const Bytes> pieces) = 0;
  // True if a short message is sent faster in one piece than in several.
  virtual bool prefers_one_piece() const { return true; }
  // The maximum number of bytes that one call of send_from() copies. The caller need not pass more.
  virtual std::size_t send_bytes() const { return SIZE_MAX; }

  // True if bytes of the next operation have arrived. Call only between two operations. Throws like recv_into().
  virtual bool has_arrived() = 0;

  // Call before the first byte of an operation in this direction. may_refer: sent bytes may stay in the caller's memory
  // until the peer has copied them, and count as sent only then.
  virtual void begin(bool /*sending*/, bool /*may_refer*/) {}

  // Adds to the waiter the descriptors that become ready for poll() when the wanted event occurs. A link without
  // descriptors rings this rank's bell at the event. Returns false if the event has already occurred.
  virtual bool want(Wanted wanted, Waiter& waiter) = 0;
};

}  // namespace anello::link
