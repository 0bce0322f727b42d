// A tensor, or a list of tensors of one type, used as one logical run of elements. Stores the pieces of memory with
// their offsets; borrows the memory and the list. Only one thread at a time may use a buffer, even for reading.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "ring/base/bytes.hpp"

namespace anello::run {

class Buffer {
 public:
  struct Piece {
    std::uint64_t end = 0;  // number of elements up to the end of this piece
    std::byte* data = nullptr;
    std::uint64_t count = 0;
  };

  Buffer() = default;
  Buffer(std::byte* data, std::uint64_t elems) : single_{elems, data, elems} {}
  explicit Buffer(std::span<const Piece> pieces) : list_(pieces) {}

  std::span<const Piece> list() const { return list_; }  // empty if the buffer is a single tensor

  // True if element `at` of both buffers is in the same memory, for every `at`.
  bool is_same(const Buffer& other) const {
    return list_.data() == other.list_.data() && (!list_.empty() || single_.data == other.single_.data);
  }

  // Returns contiguous memory that begins at element `at`: at least one and at most `elems` elements, which must exist.
  Bytes run(std::uint64_t at, std::uint64_t elems, std::uint32_t shift) const {
    const Piece& piece = list_.empty() ? single_ : list_[index_of(at)];
    const std::uint64_t within = at - begin(piece);
    return {piece.data + (within << shift), std::size_t(std::min(elems, piece.end - at)) << shift};
  }

  // Returns the memory from element `at` on. Call only if the buffer is a single tensor.
  std::byte* single(std::uint64_t at, std::uint32_t shift) const { return single_.data + (at << shift); }

  // Returns how many consecutive elements, from element `at` on, lie in small tensors of a list: at most `elems`. Looks
  // at no more than kMaxLook tensors.
  std::uint64_t in_small_pieces(std::uint64_t at, std::uint64_t elems, std::uint32_t shift) const {
    if (list_.empty() || elems == 0) return 0;
    std::uint64_t end = at;
    for (const Piece& piece : list_.subspan(index_of(at)).first(std::min(kMaxLook, list_.size() - near_))) {
      if (!is_small(piece, shift)) break;
      end = piece.end;
      if (end - at >= elems) break;
    }
    return std::min(end - at, elems);
  }
  bool has_small_pieces(std::uint32_t shift) const {
    return std::ranges::any_of(list_, [shift](const Piece& piece) { return is_small(piece, shift); });
  }

 private:
  static constexpr std::size_t kSmallBytes = 512;
  static constexpr std::size_t kMaxLook = 1024;

  static bool is_small(const Piece& piece, std::uint32_t shift) { return piece.count << shift <= kSmallBytes; }
  static std::uint64_t begin(const Piece& piece) { return piece.end - piece.count; }

  // Returns the index of the piece that has element `at`: usually the piece of the last call, or the next piece.
  std::size_t index_of(std::uint64_t at) const {
    if (at >= list_[near_].end && near_ + 1 < list_.size()) near_++;
    if (at < begin(list_[near_]) || at >= list_[near_].end) {
      const auto is_before = [](std::uint64_t element, const Piece& piece) { return element < piece.end; };
      near_ = std::size_t(std::upper_bound(list_.begin(), list_.end(), at, is_before) - list_.begin());
    }
    return near_;
  }

  Piece single_;
  std::span<const Piece> list_;
  mutable std::size_t near_ = 0;
};

// For each contiguous run of the first `elems` elements, calls use(bytes in `to`, bytes in `from`).
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
