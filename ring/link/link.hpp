// A link: a pipe of bytes each way between this rank and one other, in order and without loss. What lies beneath
// (TCP, memory in a simulation) is its own affair; tensors and operations are unknown to it. Used by one thread at a
// time, that which moves its group's data. Holds at least 64 bytes each way: what opens an operation, and one element.
#pragma once
#include <span>

#include "ring/base/bytes.hpp"

namespace anello {

class Link {
 public:
  virtual ~Link() = default;

  // Moves what can be moved now, from or into the pieces in order, and returns how many bytes that was; 0 when nothing
  // can. Never blocks. Throws Error{network} when the other end is gone.
  virtual std::size_t send_from(std::span<const ConstBytes> pieces) = 0;
  virtual std::size_t recv_into(std::span<const Bytes> pieces) = 0;

  // A descriptor that poll() finds readable or writable when the calls above would move something; -1 if there is none.
  virtual int descriptor() const = 0;
};

}  // namespace anello
