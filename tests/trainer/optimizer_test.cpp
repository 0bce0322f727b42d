// Compares optimizers with their definitions, computed in double.
#include "trainer/optimizer.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace anello::trainer {
namespace {

// The gradient of step `count` for parameter i: changes sign and size.
float slope(std::size_t i, std::uint64_t count) {
  return float(std::sin(double(i * 7 + count * 3)) * std::pow(10, double(i) - 2));
}

constexpr std::size_t kParameters = 5;
constexpr float kRate = 0.01F;

std::vector<float> after(const std::string& name, std::uint64_t steps) {
  const auto backend = make_cpu_backend();
  const auto optimizer = make_optimizer(name, *backend, kParameters);
  std::vector<float> parameters(kParameters, 1), gradient(kParameters);
  for (std::uint64_t count = 1; count <= steps; count++) {
    for (std::size_t i = 0; i < kParameters; i++) gradient[i] = slope(i, count);
    optimizer->step(parameters, gradient, kRate, count);
  }
  return parameters;
}

TEST(Sgd, FollowsItsDefinition) {
  std::vector<double> expected(kParameters, 1), velocity(kParameters);
  for (std::uint64_t count = 1; count <= 50; count++)
    for (std::size_t i = 0; i < kParameters; i++) {
      velocity[i] = 0.9 * velocity[i] + slope(i, count);
      expected[i] -= kRate * velocity[i];
    }
  const auto parameters = after("sgd", 50);
  for (std::size_t i = 0; i < kParameters; i++)
    EXPECT_NEAR(parameters[i], expected[i], 1e-5 * std::max(1.0, std::abs(expected[i]))) << i;
}

TEST(Adam, FollowsItsDefinition) {
  std::vector<double> expected(kParameters, 1), mean(kParameters), square(kParameters);
  for (std::uint64_t count = 1; count <= 50; count++)
    for (std::size_t i = 0; i < kParameters; i++) {
      const double g = slope(i, count);
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.999 * square[i] + 0.001 * g * g;
      const double corrected_mean = mean[i] / (1 - std::pow(0.9, double(count)));
      const double corrected_square = square[i] / (1 - std::pow(0.999, double(count)));
      expected[i] -= kRate * corrected_mean / (std::sqrt(corrected_square) + 1e-6);
    }
  const auto parameters = after("adam", 50);
  for (std::size_t i = 0; i < kParameters; i++) EXPECT_NEAR(parameters[i], expected[i], 2e-5) << i;
}

// There are no earlier gradients to average, so Adam's first step has the size of the rate, for any gradient.
TEST(Adam, FirstStepIsTheRate) {
  const auto parameters = after("adam", 1);
  for (std::size_t i = 0; i < kParameters; i++) EXPECT_NEAR(std::abs(parameters[i] - 1), kRate, 1e-5) << i;
}

TEST(Optimizers, StateExistsFromConstruction) {
  const auto backend = make_cpu_backend();
  for (const auto& [name, tensors] : {std::pair("sgd", 1U), std::pair("adam", 2U)}) {
    const auto optimizer = make_optimizer(name, *backend, kParameters);
    const auto state = optimizer->state();
    ASSERT_EQ(state.size(), tensors);
    for (const auto& tensor : state) {
      EXPECT_EQ(tensor.size(), kParameters);
      EXPECT_THAT(tensor, testing::Each(0.0F));
    }
  }
}

}  // namespace
}  // namespace anello::trainer
