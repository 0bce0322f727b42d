#include "bench/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "ring/base/check.hpp"
#include "ring/base/element_types.hpp"

namespace anello::bench {
namespace {

constexpr int kMaxValue = 127;  // fits i8, and bf16 can represent all whole numbers up to this value
constexpr int kMaxDoubled = 6;  // 2^kMaxDoubled is below kMaxValue

// If a reduction of all ranks' values would overflow, only some ranks contribute at each position. These ranks change
// from position to position, so that every rank's data is used.
double contribution(Op op, int rank, int world, std::size_t position) {
  const int turn = int((position + std::size_t(rank)) % std::size_t(world));
  const std::uint32_t mixed = (std::uint32_t(position) * 2654435761U + std::uint32_t(rank) * 2246822519U) >> 12;
  switch (op) {
    case Op::sum:
    case Op::average:
      return turn < kMaxValue ? 1 + mixed % unsigned(kMaxValue / std::min(world, kMaxValue)) : 0;
    case Op::product:
      return turn < kMaxDoubled ? 1 + mixed % 2 : 1;
    case Op::min:
    case Op::max:
      return mixed % (kMaxValue + 1);
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
      break;
  }
  ANELLO_CHECK(!"a reduction that is measured");
}

double combined(Op op, double a, double b) {
  switch (op) {
    case Op::sum:
    case Op::average:
      return a + b;
    case Op::product:
      return a * b;
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
      break;
  }
  ANELLO_CHECK(!"a reduction that is measured");
}

double result(Op op, int world, std::size_t position, bool whole) {
  double value = contribution(op, 0, world, position);
  for (int rank = 1; rank < world; rank++) value = combined(op, value, contribution(op, rank, world, position));
  if (op == Op::average) value /= world;
  return whole ? std::trunc(value) : value;
}

template <class T>
void put_as(std::byte* at, double value) {
  T element;
  if constexpr (std::is_arithmetic_v<T>)
    element = T(value);
  else
    element = T(float(value));
  std::memcpy(at, &element, sizeof element);
}

bool is_whole(DType dtype) {
  return !is_float(dtype);
}

}  // namespace

Pattern::Pattern(DType dtype, Op op, int rank, int world)
    : elem_bytes_(size_bytes(dtype)), mine_(kPeriod * elem_bytes_), expected_(kPeriod * elem_bytes_) {
  with_type(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < kPeriod; i++) {
      put_as<T>(&mine_[i * elem_bytes_], contribution(op, rank, world, i));
      put_as<T>(&expected_[i * elem_bytes_], result(op, world, i, is_whole(dtype)));
    }
  });
}

void Pattern::fill(Tensor input) const {
  auto* to = static_cast<std::byte*>(input.data);
  for (std::size_t left = input.bytes(); left > 0;) {
    const std::size_t bytes = std::min(left, mine_.size());
    std::memcpy(to, mine_.data(), bytes);
    to += bytes;
    left -= bytes;
  }
}

std::uint64_t Pattern::count_wrong(ConstTensor output, std::uint64_t first) const {
  return count_unlike(expected_, output, first);
}

std::uint64_t Pattern::count_unlike_input(ConstTensor output, std::uint64_t first) const {
  return count_unlike(mine_, output, first);
}

std::uint64_t Pattern::count_unlike(const std::vector<std::byte>& period, ConstTensor output,
                                    std::uint64_t first) const {
  const auto* from = static_cast<const std::byte*>(output.data);
  std::uint64_t wrong = 0;
  std::size_t begin = first % kPeriod * elem_bytes_;
  for (std::size_t left = output.bytes(); left > 0; begin = 0) {
    const std::size_t bytes = std::min(left, period.size() - begin);
    if (std::memcmp(from, &period[begin], bytes) != 0)
      for (std::size_t at = 0; at < bytes; at += elem_bytes_)
        wrong += std::memcmp(from + at, &period[begin + at], elem_bytes_) != 0;
    from += bytes;
    left -= bytes;
  }
  return wrong;
}

}  // namespace anello::bench
