// A 64-bit hash of bytes, to compare the data of two ranks. It processes one word after another like FNV-1a, and mixes
// high bits into low bits. Each of these steps can be inverted, so one changed word always changes the hash. Do not use
// the hash for secrets.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace anello::trainer {

inline std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  const auto step = [&](std::uint64_t word) {
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;
  };
  step(bytes.size());
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::size_t>(8, bytes.size()))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<std::size_t>(8, bytes.size()));
    step(word);
  }
  return hash;
}

inline std::string hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); value > 0; value >>= 4) *digit++ = "0123456789abcdef"[value & 15];
  return digits;
}

}  // namespace anello::trainer
