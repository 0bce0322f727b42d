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

  // peek() returns a run of received bytes in the link's buffer; it is empty if there are none. consume() frees the
  // run. If both sides called begin(), the first byte after it lies at the start of a cache line.
  virtual Bytes peek() = 0;
  virtual void consume(std::size_t bytes) = 0;

  // Returns the buffer for the next bytes, empty if there is no room; put() sends what was written there. nullopt: use
  // send_from(), because room() is not supported or is slower for this size.
  virtual std::optional<Bytes> room(std::size_t /*bytes*/) { return std::nullopt; }
  virtual void put(std::size_t /*bytes*/) {}

  // Replies. Bytes sent between keep() and begin() stay in the buffer, and the other side may overwrite them before it
  // consumes them: the overwritten bytes are its reply. replies() returns a run of bytes that the other side has
  // consumed, and take() frees the run. reply_bytes(): the maximum number of such bytes at a time; 0 if the link has no
  // replies.
  virtual std::size_t reply_bytes() const { return 0; }
  virtual void keep() {}
  virtual Bytes replies() { return {}; }
  virtual void take(std::size_t /*bytes*/) {}

  // Call when an operation is given up. From then on, bytes that do not yet count as sent may change, so the other side
  // must not use them. Nothing may be sent on this link any more.
  virtual void revoke() {}

  // Returns what the two sides show each other beside the pipes; null if there is nothing.
  virtual shm::Window* window() { return nullptr; }
};

}  // namespace anello::link
