#include "ring/run/checksum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "ring/base/element_types.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>
#if XXH_VERSION_NUMBER < 800
#error "xxHash must be 0.8.0 or later: before, XXH3 was not the same on all machines"
#endif

namespace anello::run {
namespace {

constexpr std::size_t kBlockBytes = 4096;  // stays in the first-level cache

// Compares floats as integers: without the sign bit, values above infinity are NaNs. The loop has no branch and no
// comparison, so compilers vectorise it.
template <class Bits>
bool any_nan(ConstBytes block, Bits infinity) {
  constexpr Bits kUnsigned = Bits(~Bits(0)) >> 1;
  Bits borrowed = 0;
  for (std::size_t at = 0; at < block.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, block.data() + at, sizeof bits);
    borrowed = Bits(borrowed | Bits(infinity - Bits(bits & kUnsigned)));
  }
  return borrowed > kUnsigned;
}

template <class Bits>
void put(XXH3_state_t& state, ConstBytes block, Bits infinity) {
  constexpr Bits kUnsigned = Bits(~Bits(0)) >> 1;
  std::array<Bits, kBlockBytes / sizeof(Bits)> same;
  const std::size_t elems = block.size() / sizeof(Bits);
  if (any_nan(block, infinity)) {
    std::memcpy(same.data(), block.data(), block.size());
    for (std::size_t i = 0; i < elems; i++)
      if (Bits(same[i] & kUnsigned) > infinity) same[i] = kUnsigned;
    block = std::as_bytes(std::span(same).first(elems));
  }
  XXH3_64bits_update(&state, block.data(), block.size());
}

template <class Float>
void put_with_nans_alike(XXH3_state_t& state, ConstBytes block) {
  using Bits = std::conditional_t<sizeof(Float) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(Float) == 4, std::uint32_t, std::uint64_t>>;
  put<Bits>(state, block, std::bit_cast<Bits>(Float(std::numeric_limits<float>::infinity())));
}

void put_with_nans_alike(XXH3_state_t& state, ConstBytes block, DType dtype) {
  with_type(dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) put_with_nans_alike<T>(state, block);
  });
}

}  // namespace

std::uint32_t checksum(DType dtype, const Buffer& buffer, std::uint64_t elems, Nans nans) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const auto shift = std::uint32_t(std::countr_zero(size_bytes(dtype)));
  for (std::uint64_t at = 0; at < elems;) {
    const ConstBytes block = buffer.run(at, std::min<std::uint64_t>(elems - at, kBlockBytes >> shift), shift);
    if (nans == Nans::alike && is_float(dtype))
      put_with_nans_alike(state, block, dtype);
    else
      XXH3_64bits_update(&state, block.data(), block.size());
    at += block.size() >> shift;
  }
  const auto digest = std::uint32_t(XXH3_64bits_digest(&state));
  return digest == 0 ? 1 : digest;
}

}  // namespace anello::run
