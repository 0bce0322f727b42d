// Sizes as text, and the sequence of sizes of a benchmark. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace anello::bench {

// Parses "4", "64K", "256M", "1G": bytes, in powers of 1024; a B may follow ("64KB", "64KiB"). Throws
// Error{configuration} that names `what`.
std::uint64_t parse_size(std::string_view what, std::string_view text);

struct SizeRange {
  std::uint64_t begin = 4, end = 64 << 20;
  double factor = 4;            // each size is this times the one before, unless
  std::uint64_t increment = 0;  // this is not 0: then it is this many bytes larger
};
// The sizes from begin to end. Throws Error{configuration} if they do not grow, or are more than 10,000.
std::vector<std::uint64_t> sizes(const SizeRange& range);

}  // namespace anello::bench
