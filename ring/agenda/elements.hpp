// Functions on elements that ring/run does not have: neutral elements, and factors for integers. Pure.
#pragma once
#include <anello/tensor.hpp>

namespace anello::agenda {

bool is_integer(DType dtype);  // neither floating-point nor bool

// Sets every element to the neutral element of `op`; for an average, zero.
void fill_neutral(const Tensor& tensor, Op op);

// to[i] = from[i] * factor in f64, truncated toward zero; a result beyond the type's range becomes the nearest limit.
// For integers. Both tensors have the same count and dtype, and may be the same memory.
void scale_integers(const ConstTensor& from, const Tensor& to, double factor);

}  // namespace anello::agenda
