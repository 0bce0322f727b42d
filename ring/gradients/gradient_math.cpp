#include "ring/gradients/gradient_math.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <type_traits>

#include "ring/base/element_types.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::gradients {
namespace {

constexpr std::size_t kBlock = 1024;

template <class T>
double widened(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return double(value);
  else
    return double(float(value));
}

// Adds to several independent sums, because the compiler cannot vectorise a single chain of additions.
template <class T>
double squares(const void* data, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  const T* const values = static_cast<const T*>(data);
  std::array<double, kLanes> sums{};
  const auto add = [&](std::size_t at, std::size_t lane) { sums[lane] += widened(values[at]) * widened(values[at]); };
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t at = 0; at < whole; at += kLanes)
    for (std::size_t lane = 0; lane < kLanes; lane++) add(at + lane, lane);
  for (std::size_t at = whole; at < count; at++) add(at, at - whole);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

template <class Narrow>
void round_as(std::span<float> values) {
  std::array<Narrow, kBlock> narrow;
  const auto part = std::span(narrow).first(values.size());
  convert(values, part);
  convert(part, values);
}

}  // namespace

double squared_norm(const Tensor& gradient) {
  return with_type(gradient.dtype, [&]<class T>() { return squares<T>(gradient.data, gradient.count); });
}

void multiply(const Tensor& gradient, double factor) {
  const Bytes bytes(static_cast<std::byte*>(gradient.data), gradient.bytes());
  run::scale(gradient.dtype, bytes, bytes, factor);
}

// If the rounded value is an infinity or a NaN, sets the error to zero. Otherwise this element would be a NaN in every
// later step.
void round_with_feedback(std::span<float> gradient, double factor, DType wire, std::span<float> lost) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (std::size_t at = 0; at < gradient.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, gradient.size() - at);
    const auto values = gradient.subspan(at, count), rest = lost.subspan(at, count);
    for (std::size_t k = 0; k < count; k++) rest[k] = values[k] = float(factor * double(values[k])) + rest[k];
    wire == DType::f16 ? round_as<f16>(values) : round_as<bf16>(values);
    for (std::size_t k = 0; k < count; k++) {
      const float error = rest[k] - values[k];
      rest[k] = error >= -kMax && error <= kMax ? error : 0;
    }
  }
}

}  // namespace anello::gradients
