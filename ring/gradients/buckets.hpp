// How gradients are put together into buckets, each of which travels as one operation: in the order in which they
// become ready, one element type a bucket. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace anello {

// Elements of a gradient. One that is larger than a bucket may be is in several pieces.
struct GradientPiece {
  std::size_t parameter = 0;
  std::uint64_t first = 0, count = 0;
  friend bool operator==(const GradientPiece&, const GradientPiece&) = default;
};
using Bucket = std::vector<GradientPiece>;
constexpr std::uint64_t kWorthwhileBucketBytes = 256 << 10;

// `order` has the number of each gradient once, as they become ready. Buckets are full at `max_bytes`, or hold one
// element, the last ones at less and less, down to what is worthwhile; they come in the order in which their last piece
// is ready. Gradients without elements are in none.
std::vector<Bucket> make_buckets(std::span<const Tensor> gradients, std::span<const std::uint32_t> order,
                                 std::uint64_t max_bytes);

}  // namespace anello
