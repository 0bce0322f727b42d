// The reductions of one pair of elements. Every kernel includes this file, so that the compiler inlines the reductions.
#pragma once
#include <anello/tensor.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ring/base/check.hpp"
#include "ring/base/element_types.hpp"

namespace anello::run {

// Integers are added and multiplied as unsigned numbers of at least 32 bits. So an overflow wraps.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 8), std::uint32_t, std::uint64_t>;

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return T(Wrapping<T>(a) + Wrapping<T>(b));
    else
      return a + b;
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return T(Wrapping<T>(a) * Wrapping<T>(b));
    else
      return a * b;
  }
};
template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  else
    return false;
}
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;

// If either operand is a NaN, the result is a NaN. -0 is less than +0, as in IEEE 754-2019. Two numbers that compare
// equal have equal bits, except for the zeros. So the result does not depend on the order of the ranks.
struct Min {
  template <class T>
  static T apply(T a, T b) {
    const T least = a < b || is_nan(a) ? a : b;
    if constexpr (std::is_floating_point_v<T>)
      return a == b ? std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b)) : least;
    else
      return least;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    const T most = a > b || is_nan(a) ? a : b;
    if constexpr (std::is_floating_point_v<T>)
      return a == b ? std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b)) : most;
    else
      return most;
  }
};

struct BitAnd {
  template <class T>
  static T apply(T a, T b) {
    return T(a & b);
  }
};
struct BitOr {
  template <class T>
  static T apply(T a, T b) {
    return T(a | b);
  }
};
struct BitXor {
  template <class T>
  static T apply(T a, T b) {
    return T(a ^ b);
  }
};
template <class Reduction>
inline constexpr bool kBitwise =
    std::is_same_v<Reduction, BitAnd> || std::is_same_v<Reduction, BitOr> || std::is_same_v<Reduction, BitXor>;

// Calls use.operator()<Reduction>() for the reduction of `op`.
template <class Use>
auto with_reduction(Op op, Use&& use) {
  switch (op) {
    case Op::sum:
    case Op::average:
      return use.template operator()<Sum>();
    case Op::min:
      return use.template operator()<Min>();
    case Op::max:
      return use.template operator()<Max>();
    case Op::product:
      return use.template operator()<Product>();
    case Op::bit_and:
      return use.template operator()<BitAnd>();
    case Op::bit_or:
      return use.template operator()<BitOr>();
    case Op::bit_xor:
      return use.template operator()<BitXor>();
  }
  ANELLO_CHECK(!"a known reduction");
}

}  // namespace anello::run
