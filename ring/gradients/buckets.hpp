// Divides gradients into buckets. Each bucket is sent as one operation and has one element type. Buckets follow the
// order in which gradients become ready. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace anello::gradients {

// A range of a gradient's elements. A gradient that is too large for one bucket has a piece in each of several buckets.
struct GradientPiece {
  std::size_t parameter = 0;
  std::uint64_t first = 0, count = 0;
  friend bool operator==(const GradientPiece&, const GradientPiece&) = default;
};
using Bucket = std::vector<GradientPiece>;
constexpr std::uint64_t kWorthwhileBucketBytes = 256 << 10;

// Makes the buckets. `order`: each gradient's index once, in the order in which gradients become ready. A bucket has at
// most `max_bytes`, or one element. Towards the end, buckets become smaller, down to kWorthwhileBucketBytes. The
// buckets are sorted by the time at which their last piece becomes ready. Gradients without elements are in no bucket.
std::vector<Bucket> make_buckets(std::span<const Tensor> gradients, std::span<const std::uint32_t> order,
                                 std::uint64_t max_bytes);

}  // namespace anello::gradients
