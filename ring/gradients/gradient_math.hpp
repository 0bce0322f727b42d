// Passes over gradients on one rank: their norm, scaling, and the feedback of what rounding takes away. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <span>

namespace anello {

// The sum of the squares, in f64 and always in the same order.
double squared_norm(const Tensor& gradient);

void multiply(const Tensor& gradient, double factor);

// gradient = rounded(factor x gradient + lost), as `wire` holds it; lost = what rounding took. Both have the same
// length; lost begins as zero.
void round_with_feedback(std::span<float> gradient, double factor, DType wire, std::span<float> lost);

}  // namespace anello
