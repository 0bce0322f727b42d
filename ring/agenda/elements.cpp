#include "ring/agenda/elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ring/base/check.hpp"

namespace anello::agenda {
namespace {

// Calls use() with a null pointer of the type that stores the elements.
template <class Use>
void with_storage(DType dtype, Use use) {
  switch (dtype) {
    case DType::f32:
      return use(static_cast<float*>(nullptr));
    case DType::f64:
      return use(static_cast<double*>(nullptr));
    case DType::i8:
      return use(static_cast<std::int8_t*>(nullptr));
    case DType::u8:
    case DType::boolean:
      return use(static_cast<std::uint8_t*>(nullptr));
    case DType::i16:
      return use(static_cast<std::int16_t*>(nullptr));
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return use(static_cast<std::uint16_t*>(nullptr));
    case DType::i32:
      return use(static_cast<std::int32_t*>(nullptr));
    case DType::u32:
      return use(static_cast<std::uint32_t*>(nullptr));
    case DType::i64:
      return use(static_cast<std::int64_t*>(nullptr));
    case DType::u64:
      return use(static_cast<std::uint64_t*>(nullptr));
  }
}

enum class Extreme { one, highest, lowest };

std::uint16_t bits_16(DType dtype, Extreme extreme) {
  const bool brain = dtype == DType::bf16;
  if (extreme == Extreme::one) return brain ? 0x3f80 : 0x3c00;
  const std::uint16_t infinity = brain ? 0x7f80 : 0x7c00;
  return extreme == Extreme::highest ? infinity : std::uint16_t(infinity | 0x8000);
}

template <class T>
T value(DType dtype, Extreme extreme) {
  using Limits = std::numeric_limits<T>;
  if (dtype == DType::f16 || dtype == DType::bf16) return T(bits_16(dtype, extreme));
  if (extreme == Extreme::one) return T(1);
  if (dtype == DType::boolean) return T(extreme == Extreme::highest);
  if constexpr (Limits::has_infinity) return extreme == Extreme::highest ? Limits::infinity() : -Limits::infinity();
  return extreme == Extreme::highest ? Limits::max() : Limits::lowest();
}

template <class T>
T truncated(double value) {
  using Limits = std::numeric_limits<T>;
  const double end = std::ldexp(1.0, Limits::digits);  // exactly one above the highest value
  if (value >= end) return Limits::max();
  if (value <= double(Limits::lowest())) return Limits::lowest();
  return T(value);
}

}  // namespace

bool is_integer(DType dtype) {
  return !is_float(dtype) && dtype != DType::boolean;
}

void fill_neutral(const Tensor& tensor, Op op) {
  if (op == Op::bit_and && is_integer(tensor.dtype)) {
    std::memset(tensor.data, 0xff, tensor.bytes());
  } else if (op == Op::product || op == Op::min || op == Op::max || op == Op::bit_and) {
    const Extreme extreme = op == Op::min ? Extreme::highest : op == Op::max ? Extreme::lowest : Extreme::one;
    with_storage(tensor.dtype, [&]<class T>(T*) {
      std::fill_n(static_cast<T*>(tensor.data), tensor.count, value<T>(tensor.dtype, extreme));
    });
  } else {
    std::memset(tensor.data, 0, tensor.bytes());
  }
}

void scale_integers(const ConstTensor& from, const Tensor& to, double factor) {
  ANELLO_CHECK(is_integer(from.dtype) && from.dtype == to.dtype && from.count == to.count);
  with_storage(from.dtype, [&]<class T>(T*) {
    if constexpr (std::is_integral_v<T>) {
      const T* const input = static_cast<const T*>(from.data);
      std::transform(input, input + from.count, static_cast<T*>(to.data),
                     [factor](T element) { return truncated<T>(double(element) * factor); });
    }
  });
}

}  // namespace anello::agenda
