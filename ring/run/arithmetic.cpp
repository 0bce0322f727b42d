#include "ring/run/arithmetic.hpp"

#include <bit>
#include <type_traits>

#include "ring/base/check.hpp"

namespace anello {
namespace {

template <class T>
constexpr bool kHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// Integers are added and multiplied as unsigned numbers of at least 32 bits, so that they wrap.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

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
// A NaN on either side is the result.
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

template <class T, class Reduction>
void combine(void* out, const void* left, const void* right, std::size_t elems) {
  auto* o = static_cast<T*>(out);
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
#pragma GCC ivdep
  for (std::size_t i = 0; i < elems; i++) {
    if constexpr (kHalf<T>)
      o[i] = T(Reduction::apply(float(a[i]), float(b[i])));
    else
      o[i] = Reduction::apply(a[i], b[i]);
  }
}

template <class T>
Arithmetic::Combine combine_of(Op op) {
  switch (op) {
    case Op::sum:
    case Op::average:
      return combine<T, Sum>;
    case Op::min:
      return combine<T, Min>;
    case Op::max:
      return combine<T, Max>;
    case Op::product:
      return combine<T, Product>;
  }
  return nullptr;
}

template <class T>
void divide_all(Bytes elements, std::int64_t divisor) {
  auto* x = reinterpret_cast<T*>(elements.data());
  const std::size_t count = elements.size() / sizeof(T);
  for (std::size_t i = 0; i < count; i++) {
    if constexpr (kHalf<T>)
      x[i] = T(float(x[i]) / float(divisor));
    else if constexpr (std::is_floating_point_v<T>)
      x[i] /= T(divisor);
    else if constexpr (std::is_unsigned_v<T>)
      x[i] = T(std::uint64_t(x[i]) / std::uint64_t(divisor));
    else
      x[i] = T(std::int64_t(x[i]) / divisor);
  }
}

// Calls `use.template operator()<T>()` with the element type.
template <class Use>
auto with_type(DType dtype, Use&& use) {
  switch (dtype) {
    case DType::f16:
      return use.template operator()<f16>();
    case DType::bf16:
      return use.template operator()<bf16>();
    case DType::f32:
      return use.template operator()<float>();
    case DType::f64:
      return use.template operator()<double>();
    case DType::i8:
      return use.template operator()<std::int8_t>();
    case DType::u8:
      return use.template operator()<std::uint8_t>();
    case DType::i16:
      return use.template operator()<std::int16_t>();
    case DType::u16:
      return use.template operator()<std::uint16_t>();
    case DType::i32:
      return use.template operator()<std::int32_t>();
    case DType::u32:
      return use.template operator()<std::uint32_t>();
    case DType::i64:
      return use.template operator()<std::int64_t>();
    case DType::u64:
      return use.template operator()<std::uint64_t>();
  }
  ANELLO_CHECK(!"a known element type");
}

}  // namespace

Arithmetic arithmetic(DType dtype, Op op) {
  return with_type(dtype, [op]<class T>() {
    return Arithmetic{std::uint32_t(std::countr_zero(sizeof(T))), combine_of<T>(op)};
  });
}

void divide(DType dtype, Bytes elements, std::int64_t divisor) {
  with_type(dtype, [=]<class T>() { divide_all<T>(elements, divisor); });
}

}  // namespace anello
