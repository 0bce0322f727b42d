// Passes over gradients on one rank: their norm, scaling, and rounding with error feedback. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <span>

namespace anello::gradients {

// Returns the sum of the squares, in f64, always added in the same order.
double squared_norm(const Tensor& gradient);

void multiply(const Tensor& gradient, double factor);

// gradient = (factor x gradient + lost), rounded to the type `wire`; lost = the error of that rounding, or zero if it
// is not finite. Both spans have the same length. `lost` is zero before the first step.
void round_with_feedback(std::span<float> gradient, double factor, DType wire, std::span<float> lost);

}  // namespace anello::gradients
