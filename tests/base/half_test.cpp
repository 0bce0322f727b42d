// f16 and bf16: every pattern, every rounding boundary, and random values against double arithmetic.
#include <gtest/gtest.h>
#include <anello/tensor.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace anello {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Format {
  int mantissa_bits, min_exponent, max_exponent;
  std::uint32_t infinity;
};
template <class Half>
constexpr Format kFormat = {10, -14, 15, 0x7c00};
template <>
constexpr Format kFormat<bf16> = {7, -126, 127, 0x7f80};

template <class Half>
Half half_of(std::uint32_t bits) {
  Half half;
  half.bits = std::uint16_t(bits);
  return half;
}

// The pattern's value by the definition of the format; not for NaN.
template <class Half>
double defined_value(std::uint32_t bits) {
  const Format f = kFormat<Half>;
  const std::uint32_t magnitude = bits & 0x7fff, exponent = magnitude >> f.mantissa_bits;
  const double mantissa = magnitude & ((1U << f.mantissa_bits) - 1), one = 1 << f.mantissa_bits;
  double value = exponent == 0 ? std::ldexp(mantissa, f.min_exponent - f.mantissa_bits)
                               : std::ldexp(one + mantissa, int(exponent) - 1 + f.min_exponent - f.mantissa_bits);
  if (magnitude == f.infinity) value = kInfinity;
  return (bits & 0x8000) != 0 ? -value : value;
}

// Rounds as the format does: to a multiple of the distance between its numbers near the value, ties to even. A value
// beyond the largest number becomes infinity.
template <class Half>
double rounded(double value) {
  const Format f = kFormat<Half>;
  if (value == 0 || std::isinf(value)) return value;
  const int exponent = std::max(std::ilogb(value), f.min_exponent);
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, f.mantissa_bits - exponent)), exponent - f.mantissa_bits);
  return std::abs(rounded) >= std::ldexp(1, f.max_exponent + 1) ? std::copysign(kInfinity, value) : rounded;
}

template <class Half>
class HalfTest : public testing::Test {};
using Halves = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryPatternHasItsValueAndComesBack) {
  constexpr std::uint32_t kPatterns = 0x10000;
  for (std::uint32_t bits = 0; bits < kPatterns; bits++) {
    const auto half = half_of<TypeParam>(bits);
    const auto value = float(half);
    if ((bits & 0x7fff) > kFormat<TypeParam>.infinity) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(float(TypeParam(value)))) << bits;
      continue;
    }
    EXPECT_EQ(value, defined_value<TypeParam>(bits)) << bits;
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    EXPECT_EQ(TypeParam(value), half) << bits;
  }
}

// The middle between two neighbours is rounded to the even neighbour, and a value beside the middle to the nearer
// neighbour.
TYPED_TEST(HalfTest, RoundsToNearestEvenAtEveryBoundary) {
  for (std::uint32_t bits = 0; bits < kFormat<TypeParam>.infinity; bits++) {
    const double low = defined_value<TypeParam>(bits);
    const bool last = bits + 1 == kFormat<TypeParam>.infinity;
    const double high = last ? std::ldexp(1, kFormat<TypeParam>.max_exponent + 1) : defined_value<TypeParam>(bits + 1);
    const auto middle = float((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2) << "a float holds it exactly";
    EXPECT_EQ(TypeParam(middle).bits, bits + (bits & 1)) << bits;
    EXPECT_EQ(TypeParam(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    EXPECT_EQ(TypeParam(std::nextafter(middle, kInfinity)).bits, bits + 1) << bits;
    EXPECT_EQ(TypeParam(-middle).bits, 0x8000 | (bits + (bits & 1))) << bits;
  }
}

TYPED_TEST(HalfTest, AgreesWithDoubleArithmetic) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same values every time
  for (int i = 0; i < 200000; i++) {
    const auto value = std::bit_cast<float>(std::uint32_t(random()));
    const TypeParam half(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float(half)));
    } else {
      EXPECT_EQ(float(half), rounded<TypeParam>(value)) << value;
      EXPECT_EQ(std::signbit(float(half)), std::signbit(value)) << value;
    }
  }
}

TYPED_TEST(HalfTest, ANaNNeverBecomesInfinity) {
  for (const std::uint32_t payload : {1U, 0x1fffU, 0x2000U, 0xffffU, 0x10000U, 0x400000U, 0x7fffffU}) {
    const auto quiet_or_not = std::bit_cast<float>(0x7f800000U | payload);
    EXPECT_TRUE(std::isnan(float(TypeParam(quiet_or_not)))) << payload;
  }
}

TYPED_TEST(HalfTest, TheExtremes) {
  const Format f = kFormat<TypeParam>;
  EXPECT_EQ(TypeParam(0.0F).bits, 0);
  EXPECT_EQ(TypeParam(-0.0F).bits, 0x8000);
  EXPECT_EQ(TypeParam(kInfinity).bits, f.infinity);
  EXPECT_EQ(TypeParam(-kInfinity).bits, 0x8000 | f.infinity);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, f.infinity);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::denorm_min()).bits, 0);
}

}  // namespace
}  // namespace anello
