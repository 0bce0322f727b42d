// Cuts tensors into segments. Each segment fits into a piece of host memory, and consists of contiguous pieces of the
// tensors.
#pragma once
#include <algorithm>
#include <anello/tensor.hpp>
#include <span>
#include <type_traits>
#include <vector>

#include "gpu/function_ref.hpp"
#include "ring/plan/parts.hpp"

namespace anello::gpu {

// Called for each piece: its memory in the tensor, and its position in the segment, in bytes.
template <class Memory>
using EachPiece = FunctionRef<void(Memory memory, std::size_t offset, std::size_t bytes)>;

template <class Memory>
Memory moved(Memory memory, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Memory, const void*>, const std::byte, std::byte>;
  return static_cast<Byte*>(memory) + bytes;
}

// Treats the tensors as one contiguous run, and cuts it every `segment_bytes`.
template <class Memory, class T>
class ListCut {
 public:
  ListCut(std::span<const T> list, std::size_t segment_bytes) : list_(list), segment_bytes_(segment_bytes) {}

  // Takes the next segment. Segments must be taken in order.
  void operator()(std::size_t /*segment*/, EachPiece<Memory> each) {
    std::size_t offset = 0;
    while (offset < segment_bytes_ && tensor_ < list_.size()) {
      const T& tensor = list_[tensor_];
      const std::size_t now = std::min(segment_bytes_ - offset, tensor.bytes() - done_);
      if (now > 0) each(moved<Memory>(tensor.data, done_), offset, now);
      offset += now;
      done_ += now;
      if (done_ < tensor.bytes()) continue;
      tensor_++;
      done_ = 0;
    }
  }

 private:
  std::span<const T> list_;
  std::size_t segment_bytes_, tensor_ = 0, done_ = 0;
};

// Cuts several parts together: segment k has the elements [k * elems, (k + 1) * elems) of each part, or fewer at the
// end of the part.
class PartsCut {
 public:
  PartsCut(plan::Parts parts, int ranks, std::size_t elems)
      : parts_(std::move(parts)), ranks_(ranks), elems_(std::max<std::size_t>(elems, 1)) {}

  std::size_t segments() const { return std::max<std::size_t>((parts_.largest() + elems_ - 1) / elems_, 1); }
  std::vector<std::uint64_t> counts(std::size_t segment) const {
    std::vector<std::uint64_t> all;
    for (int rank = 0; rank < ranks_; rank++) all.push_back(count(rank, segment));
    return all;
  }
  // Returns the place of the rank's part in the memory of the segment.
  plan::Range within(int rank, std::size_t segment) const {
    std::uint64_t begin = 0;
    for (int before = 0; before < rank; before++) begin += count(before, segment);
    return {begin, count(rank, segment)};
  }
  std::size_t whole(std::size_t segment) const { return within(ranks_, segment).begin; }

  // Passes to each() the pieces of a tensor that has all parts.
  template <class Memory>
  void all(Memory memory, std::size_t elem_bytes, std::size_t segment, EachPiece<Memory> each) const {
    std::uint64_t begin = 0;
    for (int rank = 0; rank < ranks_; rank++) {
      one(rank, moved<Memory>(memory, parts_.of(rank).begin * elem_bytes), begin, elem_bytes, segment, each);
      begin += count(rank, segment);
    }
  }
  // Passes to each() the piece of a tensor that has only this one part. In the segment, the piece begins at element
  // `begin`.
  template <class Memory>
  void one(int rank, Memory memory, std::size_t begin, std::size_t elem_bytes, std::size_t segment,
           EachPiece<Memory> each) const {
    if (const std::uint64_t elems = count(rank, segment); elems > 0)
      each(moved<Memory>(memory, segment * elems_ * elem_bytes), begin * elem_bytes, elems * elem_bytes);
  }

 private:
  std::uint64_t count(int rank, std::size_t segment) const {
    if (rank >= ranks_) return 0;
    const std::uint64_t whole = parts_.of(rank).count, done = std::min<std::uint64_t>(whole, segment * elems_);
    return std::min<std::uint64_t>(whole - done, elems_);
  }

  plan::Parts parts_;
  int ranks_;
  std::size_t elems_;
};

}  // namespace anello::gpu
