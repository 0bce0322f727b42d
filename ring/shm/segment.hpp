// Memory that processes of one host share: an anonymous file (memfd), mapped. It has no name, so a crash leaves nothing
// behind. Its size is sealed before anybody else sees it: a peer that shrank it could kill us with a bus error.
#pragma once
#include <cstddef>
#include <span>

namespace anello {

class Segment {
 public:
  static Segment create(std::size_t bytes);
  // Takes over a descriptor that another process sent. Throws Error{protocol} if it is not a sealed segment of that
  // size.
  static Segment adopt(int descriptor, std::size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  std::span<std::byte> memory() const { return memory_; }
  int descriptor() const { return descriptor_; }  // to be sent

 private:
  explicit Segment(int descriptor) : descriptor_(descriptor) {}
  void map(std::size_t bytes);

  int descriptor_;
  std::span<std::byte> memory_;
};

}  // namespace anello
