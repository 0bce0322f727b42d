// A link through memory that both sides have mapped. Received bytes can be used where they lie, and bytes to send can
// be made there.
#pragma once
#include <optional>

#include "ring/link/link.hpp"

namespace anello::shm {
class Window;
}

namespace anello::link {

class MemoryLink : public Link {
 public:
  MemoryLink* memory() override { return this; }

  // peek() returns a run of received bytes in the link's buffer, empty if there are none, and consume() frees it. The
  // bytes after begin() begin at a cache line, if the other side also called begin().
  virtual Bytes peek() = 0;
  virtual void consume(std::size_t bytes) = 0;

  // Returns the buffer for the next bytes, empty if there is no room; put() sends what was written there. nullopt: use
  // send_from(), because room() is not supported or is slower for this size.
  virtual std::optional<Bytes> room(std::size_t /*bytes*/) { return std::nullopt; }
  virtual void put(std::size_t /*bytes*/) {}

  // Replies: bytes that are sent after keep(), until begin(), stay in the buffer. The other side may overwrite them
  // before it consumes them. replies() returns a run of consumed bytes, and take() frees it. reply_bytes(): how many
  // there can be at a time; 0 if the link gives no replies.
  virtual std::size_t reply_bytes() const { return 0; }
  virtual void keep() {}
  virtual Bytes replies() { return {}; }
  virtual void take(std::size_t /*bytes*/) {}

  // Call when the operation is given up: bytes that do not count as sent may change from now on, so the other side must
  // not use them. Nothing may be sent on this link any more.
  virtual void revoke() {}

  // Returns what the two sides show each other beside the pipes; null if there is nothing.
  virtual shm::Window* window() { return nullptr; }
};

}  // namespace anello::link
