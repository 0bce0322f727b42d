// Computations over all gradients of one rank: their norm, scaling, and rounding with error feedback. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <span>

namespace anello::gradients {

// Returns the sum of the squares in f64. The order of the additions is always the same.
double squared_norm(const Tensor& gradient);

void multiply(const Tensor& gradient, double factor);

// Sets gradient = (factor x gradient + lost), rounded to the type `wire`, and lost = the error of that rounding, or
// zero if the error is not finite. Both spans have the same length. `lost` must be zero before the first step.
void round_with_feedback(std::span<float> gradient, double factor, DType wire, std::span<float> lost);

}  // namespace anello::gradients
