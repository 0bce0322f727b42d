// Tests Exercise's own check: the results that it accepts are the plain sums, and it finds one wrong element anywhere.
#include "tests/support/exercise.hpp"

#include <gtest/gtest.h>

#include <span>

namespace anello {
namespace {

constexpr std::uint64_t kCount = 1000;

std::span<std::int32_t> numbers(const Tensor& tensor) {
  return {static_cast<std::int32_t*>(tensor.data), tensor.count};
}
Exercise of(Op op) {
  return {.kind = Kind::allreduce, .op = op, .dtype = DType::i32, .count = kCount, .world = 3};
}
// Computes the exercise with plain arithmetic, for rank 0.
void reduce_by_hand(Part& part, const Exercise& exercise) {
  const Part second(exercise, 1), third(exercise, 2);
  for (std::uint64_t i = 0; i < kCount; i++) {
    const std::int32_t a = numbers(part.in_place())[i], b = numbers(second.in_place())[i],
                       c = numbers(third.in_place())[i];
    numbers(part.output())[i] = exercise.op == Op::product ? a * b * c : a + b + c;
  }
}

TEST(Exercise, ThePlainResultIsRight) {
  for (const Op op : {Op::sum, Op::product}) {
    Part part(of(op), 0);
    reduce_by_hand(part, of(op));
    EXPECT_EQ(part.wrong(), "");
  }
}

TEST(Exercise, OneWrongElementIsFoundAnywhere) {
  Part part(of(Op::sum), 0);
  reduce_by_hand(part, of(Op::sum));
  for (std::uint64_t i = 0; i < kCount; i++) {
    numbers(part.output())[i]++;
    EXPECT_NE(part.wrong().find("element " + std::to_string(i) + " of the result is wrong"), std::string::npos) << i;
    numbers(part.output())[i]--;
  }
  EXPECT_EQ(part.wrong(), "");
}

// If the values of an exercise repeated after a short period, elements in a wrong place would not be found.
TEST(Exercise, AShiftByLessThanAChunkIsFound) {
  for (std::uint64_t shift = 1; shift < 49; shift++) {
    Part part(of(Op::sum), 0);
    reduce_by_hand(part, of(Op::sum));
    const std::span<std::int32_t> output = numbers(part.output());
    for (std::uint64_t i = 0; i + shift < kCount; i++) output[i] = output[i + shift];
    EXPECT_NE(part.wrong(), "") << shift;
  }
}

}  // namespace
}  // namespace anello
