// A small training whose result shows whether each sample of each step was used exactly once, and in which order the
// steps came. All numbers are integers below 2^53, so that sums do not depend on their order.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <vector>

namespace anello::trainee {

inline constexpr int kSamples = 60;  // samples of a step, on all ranks together
inline constexpr double kModulus = 1099511627689.0;

inline double contribution(std::uint64_t step, int sample, std::size_t weight) {
  const std::uint64_t mixed = (step * 1000003 + std::uint64_t(sample) * 7919 + weight * 31 + 1) * 0x9e3779b97f4a7c15;
  return double(mixed >> 40);
}

// Adds the samples [first, last) of a step.
inline void add_gradient(std::vector<double>& gradient, std::uint64_t step, int first, int last) {
  for (int sample = first; sample < last; sample++)
    for (std::size_t i = 0; i < gradient.size(); i++) gradient[i] += contribution(step, sample, i);
}

inline void update(std::vector<double>& weights, const std::vector<double>& gradient) {
  for (std::size_t i = 0; i < weights.size(); i++) weights[i] = std::fmod(3 * weights[i] + gradient[i], kModulus);
}

// If the variable TRAINEE_DIFFERS_AFTER is set, changes the state after the commit with that number.
inline void differ(std::vector<double>& weights, std::uint64_t revision) {
  const char* const after = std::getenv("TRAINEE_DIFFERS_AFTER");
  if (after && std::strtoull(after, nullptr, 10) == revision) weights[0]++;
}

inline double digest(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum = std::fmod(5 * sum + weight, kModulus);
  return sum;
}

// Writes one place of the ballast in each step.
inline void mark(std::vector<unsigned char>& ballast, std::uint64_t step, int sign = 1) {
  ballast[step * 1000003 % ballast.size()] += static_cast<unsigned char>(sign * int(step + 1));
}
// True if all bytes are equal apart from the marks of these steps.
inline bool is_marked(std::vector<unsigned char> ballast, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps && !ballast.empty(); step++) mark(ballast, step, -1);
  return std::ranges::adjacent_find(ballast, std::ranges::not_equal_to()) == ballast.end();
}

// An undisturbed training in one process.
class Undisturbed {
 public:
  explicit Undisturbed(std::size_t count) : weights_(count) {}

  // Returns the digest after this number of steps, which must not be smaller than in the last call.
  double after(std::uint64_t steps) {
    for (; done_ < steps; done_++) {
      std::vector<double> gradient(weights_.size());
      add_gradient(gradient, done_, 0, kSamples);
      update(weights_, gradient);
    }
    return digest(weights_);
  }

 private:
  std::vector<double> weights_;
  std::uint64_t done_ = 0;
};

inline double expected(std::size_t count, std::uint64_t steps) {
  return Undisturbed(count).after(steps);
}

}  // namespace anello::trainee
