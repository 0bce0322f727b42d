#include "ring/gradients/buckets.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace anello::gradients {
namespace {

// The state of one element type: the number of elements that are in no bucket yet, and the bucket that is being filled.
struct Open {
  std::uint64_t left = 0;
  Bucket bucket;
  std::uint64_t elems = 0, max_elems = 0;
  std::size_t last = 0;  // position of the bucket's last gradient in the order
};

// Returns a bucket's size in elements. After the last gradient is ready, no more work can hide the sending of a bucket.
// So towards the end each bucket holds half of the remaining elements, as long as this half is worth a message.
std::uint64_t next_size(std::uint64_t left, std::uint64_t max_elems, std::uint64_t worthwhile) {
  return std::min(max_elems, std::max(left / 2, worthwhile));
}

}  // namespace

std::vector<Bucket> make_buckets(std::span<const Tensor> gradients, std::span<const std::uint32_t> order,
                                 std::uint64_t max_bytes) {
  constexpr std::size_t kTypes = 32;
  std::array<Open, kTypes> open;
  for (const std::uint32_t gradient : order)
    open.at(std::size_t(gradients[gradient].dtype)).left += gradients[gradient].count;
  std::vector<Bucket> full;
  const auto close = [&](Open& one) {
    if (!one.bucket.empty()) full.push_back(std::exchange(one.bucket, {}));
    one.elems = 0;
  };
  for (std::size_t position = 0; position < order.size(); position++) {
    const Tensor& gradient = gradients[order[position]];
    Open& one = open.at(std::size_t(gradient.dtype));
    const std::uint64_t max_elems = std::max<std::uint64_t>(max_bytes / size_bytes(gradient.dtype), 1);
    const std::uint64_t worthwhile = kWorthwhileBucketBytes / size_bytes(gradient.dtype);
    for (std::uint64_t at = 0; at < gradient.count;) {
      if (one.elems == 0) one.max_elems = next_size(one.left, max_elems, worthwhile);
      const std::uint64_t count = std::min(gradient.count - at, one.max_elems - one.elems);
      one.bucket.push_back({order[position], at, count});
      one.elems += count;
      one.left -= count;
      one.last = position;
      at += count;
      if (one.elems == one.max_elems) close(one);
    }
  }
  std::ranges::sort(open, {}, &Open::last);
  for (Open& one : open) close(one);
  return full;
}

}  // namespace anello::gradients
