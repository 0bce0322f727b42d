// Functions on elements that ring/run lacks: neutral elements, and factors for integers. Pure.
#pragma once
#include <anello/tensor.hpp>

namespace anello::agenda {

bool is_integer(DType dtype);  // neither floating-point nor bool

// Sets every element to the neutral element of `op`. For an average this is zero.
void fill_neutral(const Tensor& tensor, Op op);

// Computes to[i] = from[i] * factor in f64, truncated toward zero. A result outside the type's range becomes the type's
// nearest limit. Only for integers. Both tensors must have the same count and dtype, and may be the same memory.
void scale_integers(const ConstTensor& from, const Tensor& to, double factor);

}  // namespace anello::agenda
