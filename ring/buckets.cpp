#include "ring/buckets.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace anello {
namespace {

// The one that is being filled, of a type.
struct Open {
  Bucket bucket;
  std::uint64_t elems = 0;
  std::size_t last = 0;  // position in the order of what came last
};

}  // namespace

std::vector<Bucket> make_buckets(std::span<const Tensor> gradients, std::span<const std::uint32_t> order,
                                 std::uint64_t most_bytes) {
  constexpr std::size_t kTypes = 32;
  std::array<Open, kTypes> open;
  std::vector<Bucket> full;
  const auto close = [&](Open& one) {
    if (!one.bucket.empty()) full.push_back(std::exchange(one, {}).bucket);
  };
  for (std::size_t position = 0; position < order.size(); position++) {
    const Tensor& gradient = gradients[order[position]];
    Open& one = open.at(std::size_t(gradient.dtype));
    const std::uint64_t most = std::max<std::uint64_t>(most_bytes / size_bytes(gradient.dtype), 1);
    for (std::uint64_t at = 0; at < gradient.count;) {
      const std::uint64_t count = std::min(gradient.count - at, most - one.elems);
      one.bucket.push_back({order[position], at, count});
      one.elems += count;
      one.last = position;
      at += count;
      if (one.elems == most) close(one);
    }
  }
  std::ranges::sort(open, {}, &Open::last);
  for (Open& one : open) close(one);
  return full;
}

}  // namespace anello
