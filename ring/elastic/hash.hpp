// The hash by which ranks compare their entries. Pure; any thread.
#pragma once
#include <cstdint>
#include <string>

#include "ring/base/bytes.hpp"

namespace anello::elastic {

struct Hash {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Hash&, const Hash&) = default;
};

Hash hash_of(ConstBytes bytes);  // XXH3 with 128 bits (Yann Collet, xxHash)
std::string hex(const Hash& hash);

}  // namespace anello::elastic
