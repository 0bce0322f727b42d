// Sizes as people write them, and the sequence of sizes that a benchmark walks. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace anello::bench {

// "4", "64K", "256M", "1G": bytes, in powers of 1024; a B may follow ("64KB", "64KiB"). Throws Error{configuration}
// that names `what`.
std::uint64_t parse_size(std::string_view what, std::string_view text);

struct Sweep {
  std::uint64_t begin = 4, end = 64 << 20;
  double factor = 4;            // from one size to the next, unless
  std::uint64_t increment = 0;  // this is set: then so many bytes more
};
// begin, and what follows it up to end. Throws Error{configuration} if it does not grow or is longer than anybody
// waits.
std::vector<std::uint64_t> sizes(const Sweep& sweep);

}  // namespace anello::bench
