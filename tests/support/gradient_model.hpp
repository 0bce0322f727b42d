// Gradients with predictable sums, for tests of the code that combines gradients.
#pragma once
#include <gtest/gtest.h>
#include <anello/gradients.hpp>
#include <anello/testing.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace anello {

// Some gradients of a rank: whole numbers that encode the rank and the gradient.
class Model {
 public:
  Model(int rank, std::vector<std::size_t> sizes) : rank_(rank) {
    for (const std::size_t size : sizes) values_.emplace_back(size);
    for (std::size_t k = 0; k < sizes.size(); k++) names_.push_back("layer " + std::to_string(k));
  }

  std::vector<Gradient> gradients() {
    std::vector<Gradient> all;
    for (std::size_t k = 0; k < values_.size(); k++) all.push_back({names_[k], values_[k]});
    return all;
  }
  std::size_t count() const { return values_.size(); }
  static float value(int rank, std::size_t gradient, std::size_t element, int step) {
    return float((std::size_t(rank) * 5 + gradient * 3 + element + std::size_t(step)) % 11) - 5;
  }
  void backward(std::size_t gradient, int step = 0) {
    for (std::size_t i = 0; i < values_[gradient].size(); i++) values_[gradient][i] = value(rank_, gradient, i, step);
  }
  std::vector<std::vector<float>>& values() { return values_; }

  // Finds the first element that is not `expected(gradient, element)`.
  template <class Expected>
  void expect(Expected expected) const {
    for (std::size_t k = 0; k < values_.size(); k++)
      for (std::size_t i = 0; i < values_[k].size(); i++)
        ASSERT_FLOAT_EQ(values_[k][i], float(expected(k, i))) << "gradient " << k << ", element " << i;
  }

 private:
  int rank_;
  std::vector<std::vector<float>> values_;
  std::vector<std::string> names_;
};

inline const std::vector<std::size_t> kSizes{7, 300, 1, 0, 1000, 64, 5000, 3, 128};

inline void with_ranks(int ranks, const std::function<void(World&)>& body) {
  run_world(ranks, body, Settings::from_environment());
}

inline double sum_of(int ranks, std::size_t gradient, std::size_t element, int step = 0) {
  double sum = 0;
  for (int rank = 0; rank < ranks; rank++) sum += double(Model::value(rank, gradient, element, step));
  return sum;
}

}  // namespace anello
