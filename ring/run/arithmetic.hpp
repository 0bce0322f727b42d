// The arithmetic of reductions on runs of elements, and conversions between types. Compiled once for each useful
// instruction set; the best one is chosen at first use (Highway). Pure; any thread.
#pragma once
#include <anello/tensor.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello::run {

// True if multiplying by 1 / value gives the same bits as dividing by value. Multiplying takes a quarter of the time.
inline bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

struct Factors {
  double left = 1, right = 1, result = 1;
};

struct Arithmetic {
  using Combine = void (*)(void* out, const void* left, const void* right, std::size_t elems);
  using CombineTwice = void (*)(void* out, void* copy, const void* left, const void* right, std::size_t elems);
  using AddScaled = void (*)(void* out, void* copy, const void* left, const void* right, std::size_t elems, Factors by);
  using Convert = void (*)(void* out, const void* from, std::size_t elems);

  std::uint32_t shift = 0;       // an element has 1 << shift bytes, at most 16
  Combine combine = nullptr;     // out[i] = left[i] (op) right[i]; out may be left or right; Op::average adds
  std::uint32_t wire_shift = 0;  // like shift, for the type in which elements are sent
  // Convert to the sent type and back; null if elements are sent in their own type.
  Convert narrow = nullptr, widen = nullptr;

  // For f16 and bf16: a fold of several operands adds up in f32 and rounds once, at its end. Null for other types.
  Convert to_f32 = nullptr, from_f32 = nullptr;
  Combine add_to_f32 = nullptr;  // left and out are f32, right has the element type

  CombineTwice combine_twice = nullptr;  // like combine, but writes to two places; null for f16 and bf16
  // out[i] = (left[i] * by.left + right[i] * by.right) * by.result. Each product and sum is rounded. If `copy` is not
  // null, the results are also written there. The result has the same bits as separate passes, except that a NaN may be
  // a different NaN. Only sums of f32 and f64 have this function; otherwise it is null.
  AddScaled add_scaled = nullptr;
};

// Elements that are only stored have a size, but no functions.
Arithmetic arithmetic(DType dtype, Op op);

// True if elements of `dtype` can be sent as `wire`: f32 and f64 as f16 or bf16, and every type as itself.
bool can_travel_as(DType dtype, DType wire);
Arithmetic arithmetic(DType dtype, Op op, DType wire);

// The scaling of a reduction's results: each result is divided by `divisor`, then multiplied by `factor`, in the
// elements' own type. A divisor or factor of 1 changes nothing.
struct Scaling {
  // Computes to[i] = from[i] (* or /) by. `to` may be `from`. Only floats can be multiplied. Integers are divided by a
  // whole number and truncated toward zero.
  using Kernel = void (*)(void* to, const void* from, std::size_t elems, double by);

  double divisor = 1, factor = 1;
  Kernel divide = nullptr, multiply = nullptr;

  // Returns the factor by which one multiplication gives the same bits as the division and the multiplication. Empty if
  // there is no such factor.
  std::optional<double> one_factor() const;
  void apply(void* results, std::size_t elems) const {
    if (divisor != 1) divide(results, results, elems, divisor);
    if (factor != 1) multiply(results, results, elems, factor);
  }
};

Scaling scaling(DType dtype, double divisor, double factor);

// Multiplies all elements of `from` by `factor`.
void scale(DType dtype, Bytes to, ConstBytes from, double factor);  // `to` may be `from`; both have the same length

}  // namespace anello::run
