#include "ring/agenda/elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ring/base/check.hpp"
#include "ring/base/element_types.hpp"

namespace anello::agenda {
namespace {

enum class Extreme { one, highest, lowest };

template <class T>
T value(Extreme extreme) {
  using Number = std::conditional_t<std::is_arithmetic_v<T>, T, float>;  // f16 and bf16 convert from float
  using Limits = std::numeric_limits<Number>;
  if (extreme == Extreme::one) return T(Number(1));
  const bool high = extreme == Extreme::highest;
  if constexpr (Limits::has_infinity)
    return T(high ? Limits::infinity() : -Limits::infinity());
  else
    return high ? Limits::max() : Limits::lowest();
}

template <class T>
T truncated(double value) {
  using Limits = std::numeric_limits<T>;
  const double end = std::ldexp(1.0, Limits::digits);  // exactly one more than the maximum value
  if (value >= end) return Limits::max();
  if (value <= double(Limits::lowest())) return Limits::lowest();
  return T(value);
}

}  // namespace

bool is_integer(DType dtype) {
  return kind(dtype) == ElementKind::integer;
}

void fill_neutral(const Tensor& tensor, Op op) {
  if (op == Op::bit_and && is_integer(tensor.dtype)) {
    std::memset(tensor.data, 0xff, tensor.bytes());
  } else if (op == Op::product || op == Op::min || op == Op::max || op == Op::bit_and) {
    const Extreme extreme = op == Op::min ? Extreme::highest : op == Op::max ? Extreme::lowest : Extreme::one;
    with_type(tensor.dtype,
              [&]<class T>() { std::fill_n(static_cast<T*>(tensor.data), tensor.count, value<T>(extreme)); });
  } else {
    std::memset(tensor.data, 0, tensor.bytes());
  }
}

void scale_integers(const ConstTensor& from, const Tensor& to, double factor) {
  ANELLO_CHECK(is_integer(from.dtype) && from.dtype == to.dtype && from.count == to.count);
  with_type(from.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const T* const input = static_cast<const T*>(from.data);
      std::transform(input, input + from.count, static_cast<T*>(to.data),
                     [factor](T element) { return truncated<T>(double(element) * factor); });
    }
  });
}

}  // namespace anello::agenda
