// Sizes as text, and the sequence of sizes of a benchmark. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace anello::bench {

// Parses "4", "64K", "256M", "1G" as bytes, in powers of 1024; a B may follow ("64KB", "64KiB"). Throws
// Error{configuration}; `what`: the name of the value in its message.
std::uint64_t parse_size(std::string_view what, std::string_view text);

struct SizeRange {
  std::uint64_t begin = 4, end = 64 << 20;
  double factor = 4;            // if `increment` is 0, each size is `factor` times the size before it
  std::uint64_t increment = 0;  // if not 0, each size is `increment` bytes larger than the size before it
};
// Returns the sizes from begin to end. Throws Error{configuration} if the sizes do not grow, or if there are more than
// 10,000 sizes.
std::vector<std::uint64_t> sizes(const SizeRange& range);

}  // namespace anello::bench
