#include "ring/elastic/hash.hpp"

#include <iomanip>

#include "ring/base/text.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>
#if XXH_VERSION_NUMBER < 800
#error "XXH3 is the same everywhere only since xxHash 0.8.0"
#endif

namespace anello::elastic {

Hash Hash::of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string hex(const Hash& hash) {
  constexpr int kDigits = 16;
  return text(std::hex, std::setfill('0'), std::setw(kDigits), hash.high, std::setw(kDigits), hash.low);
}

}  // namespace anello::elastic
