// Moves parameters along a gradient. All of an optimizer's state exists from construction, so that it can be broadcast,
// saved and restored before the first step. Used by one thread of one rank; does not depend on the world.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/backend.hpp"

namespace anello::trainer {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // `count`: number of the step, from 1. All spans have the length of the parameters and are in the backend's memory.
  virtual void step(std::span<float> parameters, std::span<const float> gradient, float rate, std::uint64_t count) = 0;
  virtual std::vector<std::span<float>> state() = 0;
};

// Makes "sgd": stochastic gradient descent with momentum 0.9; or "adam": Kingma and Ba 2015, with their constants
// except epsilon, which is 1e-6. With their epsilon of 1e-8, gradients that are only rounding errors would make steps
// of full size. The backend must outlive the optimizer.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, Backend& backend, std::size_t parameters);

}  // namespace anello::trainer
