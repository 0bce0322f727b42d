// Memory that processes of one host share: an anonymous file (memfd), mapped. It has no name, so a crash leaves nothing
// behind. Its size is sealed before anybody else sees it: a peer that shrank it could kill us with a bus error.
#pragma once
#include <cstddef>
#include <span>

#include "ring/base/descriptor.hpp"

namespace anello {

class Segment {
 public:
  // Throws Error{network}.
  static Segment create(std::size_t bytes);
  // Of a file that another process sent. Throws Error{protocol} if it is not a sealed segment of that size.
  static Segment adopt(Descriptor file, std::size_t bytes);

  Segment(Segment&& other) noexcept : file_(std::move(other.file_)), memory_(std::exchange(other.memory_, {})) {}
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  std::span<std::byte> memory() const { return memory_; }
  int descriptor() const { return file_.get(); }  // to be sent

 private:
  Segment(Descriptor file, std::size_t bytes);

  Descriptor file_;
  std::span<std::byte> memory_;
};

}  // namespace anello
