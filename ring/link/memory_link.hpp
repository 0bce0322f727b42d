// A link through memory that both sides have mapped. Received bytes can be used in the link's buffer, and bytes to send
// can be computed in it.
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

  // peek() returns a run of received bytes in the link's buffer; the run is empty if no bytes have arrived. consume()
  // frees the run. If both sides have called begin(), the next byte after the run lies at the start of a cache line.
  virtual Bytes peek() = 0;
  virtual void consume(std::size_t bytes) = 0;

  // room() returns the buffer for the next bytes, empty if the link is full; put() sends the bytes that the caller has
  // written there. nullopt: use send_from(), because the link does not support room(), or send_from() is faster for
  // this size.
  virtual std::optional<Bytes> room(std::size_t /*bytes*/) { return std::nullopt; }
  virtual void put(std::size_t /*bytes*/) {}

  // Replies. Bytes sent between keep() and begin() stay in the buffer. The other side may overwrite them before it
  // consumes them, and the overwritten bytes are its reply. replies() returns a run of bytes that the other side has
  // consumed, and take() frees the run. reply_bytes(): the maximum number of kept bytes at a time; 0 if the link does
  // not support replies.
  virtual std::size_t reply_bytes() const { return 0; }
  virtual void keep() {}
  virtual Bytes replies() { return {}; }
  virtual void take(std::size_t /*bytes*/) {}

  // Call when an operation is given up. From then on, bytes that do not yet count as sent may change, so the other side
  // must not use them. Afterwards nothing can be sent on this link.
  virtual void revoke() {}

  // Returns the window in which the two sides show each other their tensors; null if the link has no window.
  virtual shm::Window* window() { return nullptr; }
};

}  // namespace anello::link
