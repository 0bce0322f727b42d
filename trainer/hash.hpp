// A 64-bit hash of bytes, to see whether two ranks hold the same. It steps through words in the manner of FNV-1a with a
// fold that lets high bits reach low ones; each step can be undone, so one changed word always shows. Not for secrets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

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

}  // namespace anello::trainer
