// A tensor, or a list of tensors of one type, as one logical run of elements: spans of memory with their offsets.
// Borrows the memory and the list.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "ring/base/bytes.hpp"

namespace anello::run {

class Buffer {
 public:
  struct Piece {
    std::uint64_t end = 0;  // elements up to and with this piece
    std::byte* data = nullptr;
    std::uint64_t count = 0;
  };

  Buffer() = default;
  Buffer(std::byte* data, std::uint64_t elems) : single_{elems, data, elems} {}
  explicit Buffer(std::span<const Piece> pieces) : list_(pieces) {}

  std::span<const Piece> list() const { return list_; }  // empty if the buffer is a single tensor

  // The memory from element `at` on, in one run: at least one and at most `elems` elements, which must exist.
  Bytes run(std::uint64_t at, std::uint64_t elems, std::uint32_t shift) const {
    const Piece* piece = &single_;
    if (!list_.empty())
      piece = &*std::upper_bound(list_.begin(), list_.end(), at,
                                 [](std::uint64_t element, const Piece& p) { return element < p.end; });
    const std::uint64_t within = at - (piece->end - piece->count);
    return {piece->data + (within << shift), std::size_t(std::min(elems, piece->end - at)) << shift};
  }

 private:
  Piece single_;
  std::span<const Piece> list_;
};

// Calls use(to's bytes, from's bytes) for run after run of both, from the beginning to `elems`.
template <class Use>
void each_run(const Buffer& to, const Buffer& from, std::uint64_t elems, std::uint32_t shift, Use use) {
  for (std::uint64_t at = 0; at < elems;) {
    const Bytes first = to.run(at, elems - at, shift);
    const Bytes second = from.run(at, first.size() >> shift, shift);
    use(first.first(second.size()), second);
    at += second.size() >> shift;
  }
}

}  // namespace anello::run
