// What elements need beyond the kernels of ring/run: neutral elements, and factors for integers. Pure.
#pragma once
#include <anello/tensor.hpp>

namespace anello::agenda {

bool is_integer(DType dtype);  // neither floating-point nor bool

// Sets every element to the value that changes nothing when it is combined by `op`; for an average, zero.
void fill_neutral(const Tensor& tensor, Op op);

// to[i] = from[i] * factor in f64, truncated toward zero; what is beyond the type's range becomes its end. For
// integers. Both have the same count and dtype, and may be the same memory.
void scale_integers(const ConstTensor& from, const Tensor& to, double factor);

}  // namespace anello::agenda
