// Compares every element type with every reduction with a plain reference, for each instruction set of this machine.
#include "ring/run/arithmetic.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ring/run/elementwise.hpp"
#include "tests/support/random.hpp"

namespace anello::run {
namespace {

// All types except booleans, because std::vector has no array of booleans.
const std::vector<DType> kDTypes = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8,  DType::u8,
                                    DType::i16, DType::u16,  DType::i32, DType::u32, DType::i64, DType::u64};
const std::vector<Op> kOps = {Op::sum,     Op::average, Op::min,    Op::max,
                              Op::product, Op::bit_and, Op::bit_or, Op::bit_xor};

template <class Body>
void for_each_instruction_set(Body body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

template <class Use>
void with_number_type(DType dtype, Use use) {
  with_type(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) use.template operator()<T>();
  });
}

template <class T>
constexpr bool kHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
double as_double(T value) {
  if constexpr (kHalf<T>)
    return double(float(value));
  else
    return double(value);
}

// The half-precision number nearest to an exact result, found by a search of all such numbers; ties go to even.
// Infinity takes the place of the next number after the largest.
template <class Half>
Half nearest(double exact) {
  static const std::vector<double> kNumbers = [] {
    const Half infinity(std::numeric_limits<float>::infinity());
    std::vector<double> numbers;
    for (std::uint16_t bits = 0; bits < infinity.bits; bits++) numbers.push_back(as_double(std::bit_cast<Half>(bits)));
    const std::size_t last = numbers.size() - 1;
    numbers.push_back(2 * numbers[last] - numbers[last - 1]);
    return numbers;
  }();
  const double size = std::fabs(exact);
  auto at = std::size_t(std::lower_bound(kNumbers.begin(), kNumbers.end(), size) - kNumbers.begin());
  if (at == kNumbers.size()) at--;
  if (at > 0) {
    const double above = kNumbers[at] - size, below = size - kNumbers[at - 1];
    if (below < above || (below == above && at % 2 == 1)) at--;
  }
  return std::bit_cast<Half>(std::uint16_t(at | (std::signbit(exact) ? 0x8000 : 0)));
}

template <class T>
T rounded(double exact) {
  if constexpr (kHalf<T>)
    return std::isnan(exact) ? T(float(exact)) : nearest<T>(exact);
  else
    return T(exact);
}

template <class T>
T plain(Op op, T a, T b) {
  const bool sum = op == Op::sum || op == Op::average;
  if (op == Op::min || op == Op::max) {
    if (as_double(a) != as_double(a)) return a;
    if (as_double(b) != as_double(b)) return b;
    if constexpr (kHalf<T>)
      return (op == Op::min) == (float(a) < float(b)) ? a : b;
    else
      return (op == Op::min) == (a < b) ? a : b;
  }
  if constexpr (std::is_integral_v<T>) {
    using Wide = unsigned __int128;
    if (op == Op::bit_and) return T(Wide(a) & Wide(b));
    if (op == Op::bit_or) return T(Wide(a) | Wide(b));
    if (op == Op::bit_xor) return T(Wide(a) ^ Wide(b));
    return T(sum ? Wide(a) + Wide(b) : Wide(a) * Wide(b));
  } else if constexpr (kHalf<T>) {
    return rounded<T>(sum ? as_double(a) + as_double(b) : as_double(a) * as_double(b));
  } else {
    return sum ? a + b : a * b;
  }
}

template <class T>
bool same(T a, T b) {
  if (as_double(a) != as_double(a)) return as_double(b) != as_double(b);
  return as_double(a) == as_double(b) && (std::is_integral_v<T> ? a == b : true);
}

// Special values and the ends of the type's range first, then random values.
template <class T>
std::vector<T> operands(std::size_t count, Random& random) {
  std::vector<T> all;
  if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    all = {T(0), T(1), T(2), T(-1), Limits::min(), Limits::max(), T(Limits::max() - 1), T(Limits::max() / 2 + 1)};
  } else {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    for (const float value : {0.F, -0.F, 1.F, -1.F, 3.F, 1.F / 3, 65504.F, 1e-7F, kInfinity, -kInfinity, kNaN, 3e38F})
      all.push_back(T(value));
  }
  while (all.size() < count) {
    T value;
    const std::uint64_t bits = random.next();
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    all.push_back(value);
  }
  std::rotate(all.begin(), all.begin() + std::ptrdiff_t(random.below(all.size())), all.end());
  all.resize(count);
  return all;
}

enum class Alias { none, left, right };

template <class T>
void compare_with_plain(DType dtype, Op op, std::size_t count, Alias alias, Random& random) {
  std::vector<T> left = operands<T>(count, random), right = operands<T>(count, random);
  std::vector<T> expected(count), apart(count + 1, T(7));
  for (std::size_t i = 0; i < count; i++) expected[i] = plain(op, left[i], right[i]);
  T* out = alias == Alias::left ? left.data() : alias == Alias::right ? right.data() : apart.data();
  arithmetic(dtype, op).combine(out, left.data(), right.data(), count);
  for (std::size_t i = 0; i < count; i++)
    ASSERT_TRUE(same(out[i], expected[i])) << name(op) << " of " << name(dtype) << ", element " << i << " of " << count
                                           << ": " << as_double(out[i]) << " instead of " << as_double(expected[i]);
  ASSERT_TRUE(same(apart[count], T(7))) << name(dtype) << ": written past the end";
}

TEST(Arithmetic, AgreesWithThePlainReference) {
  for_each_instruction_set([] {
    Random random(1);
    for (const DType dtype : kDTypes)
      for (const Op op : kOps)
        for (const std::size_t count : {0, 1, 2, 3, 7, 16, 33, 255, 257, 1000})
          for (const Alias alias : {Alias::none, Alias::left, Alias::right})
            if (can_reduce(dtype, op))
              with_number_type(dtype, [&]<class T>() { compare_with_plain<T>(dtype, op, count, alias, random); });
  });
}

TEST(Arithmetic, OfBooleansIsAnyOrAll) {
  constexpr std::size_t kCount = 1001;
  for_each_instruction_set([] {
    std::array<bool, kCount> left{}, right{}, out{};
    for (std::size_t i = 0; i < kCount; i++) {
      left[i] = i % 2;
      right[i] = i / 2 % 2;
    }
    for (const Op op : {Op::sum, Op::max, Op::bit_or, Op::product, Op::min, Op::bit_and, Op::bit_xor}) {
      arithmetic(DType::boolean, op).combine(out.data(), left.data(), right.data(), kCount);
      const bool any = op == Op::sum || op == Op::max || op == Op::bit_or;
      for (std::size_t i = 0; i < kCount; i++) {
        const bool one_of_two = op == Op::bit_xor ? left[i] != right[i] : left[i] && right[i];
        ASSERT_EQ(out[i], any ? left[i] || right[i] : one_of_two) << name(op) << " of element " << i;
      }
    }
  });
}

TEST(Arithmetic, KnowsTheSizeOfAnElement) {
  EXPECT_EQ(arithmetic(DType::boolean, Op::sum).shift, 0U);
  for (const DType dtype : kDTypes)
    EXPECT_EQ(std::size_t(1) << arithmetic(dtype, Op::sum).shift, size_bytes(dtype)) << name(dtype);
}

template <class T>
T kernel_result(Op op, T a, T b) {
  T out{};
  arithmetic(dtype_of<T>(), op).combine(&out, &a, &b, 1);
  return out;
}

TEST(Arithmetic, IntegersWrap) {
  EXPECT_EQ(kernel_result<std::int32_t>(Op::sum, 2147483647, 1), -2147483647 - 1);
  EXPECT_EQ(kernel_result<std::uint16_t>(Op::product, 65535, 65535), 1);  // too large for the promoted int
  EXPECT_EQ(kernel_result<std::int8_t>(Op::sum, -128, -1), 127);
  EXPECT_EQ(kernel_result<std::int64_t>(Op::product, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(kernel_result<std::uint8_t>(Op::sum, 200, 100), 44);
}

template <class T>
void expect_nan_wins() {
  const T nan(std::numeric_limits<float>::quiet_NaN()), one(1.F);
  for (const Op op : {Op::min, Op::max}) {
    EXPECT_TRUE(std::isnan(as_double(kernel_result<T>(op, nan, one)))) << name(dtype_of<T>()) << ", on the left";
    EXPECT_TRUE(std::isnan(as_double(kernel_result<T>(op, one, nan)))) << name(dtype_of<T>()) << ", on the right";
  }
}

TEST(Arithmetic, ANanOnEitherSideWinsMinAndMax) {
  for_each_instruction_set([] {
    expect_nan_wins<f16>();
    expect_nan_wins<bf16>();
    expect_nan_wins<float>();
    expect_nan_wins<double>();
  });
}

template <class T>
void expect_minus_zero_is_less() {
  const T plus(0.F), minus(-0.F);
  for (const auto& [left, right] : {std::pair(plus, minus), std::pair(minus, plus)}) {
    EXPECT_TRUE(std::signbit(as_double(kernel_result<T>(Op::min, left, right)))) << name(dtype_of<T>());
    EXPECT_FALSE(std::signbit(as_double(kernel_result<T>(Op::max, left, right)))) << name(dtype_of<T>());
  }
  for (const Op op : {Op::min, Op::max}) {
    EXPECT_TRUE(std::signbit(as_double(kernel_result<T>(op, minus, minus)))) << name(dtype_of<T>()) << name(op);
    EXPECT_FALSE(std::signbit(as_double(kernel_result<T>(op, plus, plus)))) << name(dtype_of<T>()) << name(op);
  }
}

TEST(Arithmetic, MinusZeroIsLessThanPlusZero) {
  for_each_instruction_set([] {
    expect_minus_zero_is_less<f16>();
    expect_minus_zero_is_less<bf16>();
    expect_minus_zero_is_less<float>();
    expect_minus_zero_is_less<double>();
  });
}

template <class T>
void compare_division(std::int64_t divisor, Random& random) {
  std::vector<T> values = operands<T>(301, random);
  std::vector<T> expected = values;
  for (T& x : expected) {
    if constexpr (kHalf<T>)
      x = rounded<T>(as_double(float(x) / float(divisor)));
    else
      x = T(x / T(divisor));
  }
  scaling(dtype_of<T>(), double(divisor), 1).apply(values.data(), values.size());
  for (std::size_t i = 0; i < values.size(); i++)
    ASSERT_TRUE(same(values[i], expected[i])) << name(dtype_of<T>()) << " / " << divisor << ", element " << i;
}

TEST(Arithmetic, AverageDividesByTheNumberOfRanks) {
  for_each_instruction_set([] {
    Random random(2);
    for (const std::int64_t divisor : {1, 2, 3, 7, 16, 100})
      for (const DType dtype : kDTypes)
        with_number_type(dtype, [&]<class T>() { compare_division<T>(divisor, random); });
  });
}

TEST(Arithmetic, AverageOfIntegersTruncatesTowardZero) {
  std::vector<std::int32_t> values = {7, -7, 1, -1, 0};
  scaling(DType::i32, 2, 1).apply(values.data(), values.size());
  EXPECT_EQ(values, (std::vector<std::int32_t>{3, -3, 0, 0, 0}));
}

// More ranks than a small type can count.
TEST(Arithmetic, AverageDividesByMoreThanTheTypeCanHold) {
  std::vector<std::int8_t> values = {127, -128, 5};
  scaling(DType::i8, 300, 1).apply(values.data(), values.size());
  EXPECT_EQ(values, (std::vector<std::int8_t>{0, 0, 0}));
}

TEST(Convert, HalfPrecisionRoundsToNearestEvenInAnyPosition) {
  for_each_instruction_set([] {
    Random random(3);
    const std::vector<float> from = operands<float>(1001, random);
    std::vector<f16> halves(from.size());
    std::vector<bf16> brains(from.size());
    convert(from, std::span(halves));
    convert(from, std::span(brains));
    for (std::size_t i = 0; i < from.size(); i++) {
      ASSERT_TRUE(same(halves[i], rounded<f16>(double(from[i])))) << "f16, element " << i << ": " << from[i];
      ASSERT_TRUE(same(brains[i], rounded<bf16>(double(from[i])))) << "bf16, element " << i << ": " << from[i];
    }
  });
}

template <class Half>
void expect_all_patterns_return() {
  std::vector<Half> all(65536), back(65536);
  std::vector<float> wide(65536);
  for (std::size_t bits = 0; bits < all.size(); bits++) all[bits].bits = std::uint16_t(bits);
  convert(std::span<const Half>(all), std::span(wide));
  convert(std::span<const float>(wide), std::span(back));
  for (std::size_t bits = 0; bits < all.size(); bits++) {
    ASSERT_TRUE(same(double(wide[bits]), as_double(all[bits]))) << bits;
    ASSERT_TRUE(same(back[bits], all[bits]) && std::signbit(float(back[bits])) == std::signbit(float(all[bits])))
        << name(dtype_of<Half>()) << " pattern " << bits;
  }
}

TEST(Convert, EveryHalfWidensExactlyAndReturns) {
  for_each_instruction_set([] {
    expect_all_patterns_return<f16>();
    expect_all_patterns_return<bf16>();
  });
}

}  // namespace
}  // namespace anello::run
