// What a reduction does to runs of elements, and conversion between types. Compiled once for each instruction set that
// is worth it and chosen when first used (Highway). Pure; any thread.
#pragma once
#include <anello/tensor.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello::run {

// Such a number divides to the same bits as its inverse multiplies, which takes a quarter of the time.
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

  std::uint32_t shift = 0;       // an element has 1 << shift bytes, 16 at most
  Combine combine = nullptr;     // out[i] = left[i] (op) right[i]; out may be left or right; Op::average adds
  std::uint32_t wire_shift = 0;  // the same of what travels
  Convert narrow = nullptr, widen = nullptr;  // to that and back; null if elements travel as they are

  // f16 and bf16: a fold of several adds up in f32 and rounds once, at its end. Null for the other types.
  Convert to_f32 = nullptr, from_f32 = nullptr;
  Combine add_to_f32 = nullptr;  // left and out are f32, right is an element

  CombineTwice combine_twice = nullptr;  // as combine, to two places; null for f16 and bf16
  // out[i] = (left[i] * by.left + right[i] * by.right) * by.result, each product and sum rounded; also to `copy`, if
  // that is not null. The bits of separate passes, except which of two NaNs it is. Null except for sums of f32 and f64.
  AddScaled add_scaled = nullptr;
};

Arithmetic arithmetic(DType dtype, Op op);

// Elements that travel as `wire`: f32 or f64 as f16 or bf16, or everything as itself.
bool can_travel_as(DType dtype, DType wire);
Arithmetic arithmetic(DType dtype, Op op, DType wire);

// What a reduction makes of its results: each is divided, then multiplied, in the elements' own type. By 1 nothing is.
struct Scaling {
  // to[i] = from[i] (* or /) by; `to` may be `from`. Only floats are multiplied. Integers are divided by a whole number
  // and truncated toward zero.
  using Kernel = void (*)(void* to, const void* from, std::size_t elems, double by);

  double divisor = 1, factor = 1;
  Kernel divide = nullptr, multiply = nullptr;

  // What to multiply by instead, to the same bits; nothing if that takes two steps, or a division.
  std::optional<double> one_factor() const;
  void apply(void* results, std::size_t elems) const {
    if (divisor != 1) divide(results, results, elems, divisor);
    if (factor != 1) multiply(results, results, elems, factor);
  }
};

Scaling scaling(DType dtype, double divisor, double factor);

// The same for all elements at once.
void scale(DType dtype, Bytes to, ConstBytes from, double factor);  // both have the same length, and may be the same

}  // namespace anello::run
