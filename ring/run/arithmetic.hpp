// What a reduction does to runs of elements, and conversion between types. Compiled once for each instruction set that
// is worth it and chosen when first used (Highway). Pure; any thread.
#pragma once
#include <anello/tensor.hpp>
#include <cstddef>
#include <cstdint>

#include "ring/base/bytes.hpp"

namespace anello::run {

struct Arithmetic {
  using Combine = void (*)(void* out, const void* left, const void* right, std::size_t elems);
  using Convert = void (*)(void* out, const void* from, std::size_t elems);

  std::uint32_t shift = 0;       // an element has 1 << shift bytes, 16 at most
  Combine combine = nullptr;     // out[i] = left[i] (op) right[i]; out may be left or right; Op::average adds
  std::uint32_t wire_shift = 0;  // the same of what travels
  Convert narrow = nullptr, widen = nullptr;  // to that and back; null if elements travel as they are

  // f16 and bf16: a fold of several adds up in f32 and rounds once, at its end. Null for the other types.
  Convert to_f32 = nullptr, from_f32 = nullptr;
  Combine add_to_f32 = nullptr;  // left and out are f32, right is an element
};

Arithmetic arithmetic(DType dtype, Op op);

// Elements that travel as `wire`: f32 or f64 as f16 or bf16, or everything as itself.
bool can_travel_as(DType dtype, DType wire);
Arithmetic arithmetic(DType dtype, Op op, DType wire);

// The end of Op::average: every element divided by `divisor`, a whole number for integers, which truncate toward zero.
void divide(DType dtype, Bytes elements, double divisor);

// to[i] = from[i] * factor, of floats; both have the same length, and may be the same.
void scale(DType dtype, Bytes to, ConstBytes from, double factor);

}  // namespace anello::run
