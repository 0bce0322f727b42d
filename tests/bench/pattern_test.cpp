#include "bench/pattern.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ring/run/arithmetic.hpp"

namespace anello::bench {
namespace {

constexpr std::size_t kCount = 2500;  // more than two periods, and a bit

std::vector<std::byte> contribution(DType dtype, Op op, int rank, int world) {
  std::vector<std::byte> bytes(kCount * size_bytes(dtype));
  Pattern(dtype, op, rank, world).fill(Tensor(bytes.data(), kCount, dtype));
  return bytes;
}

std::uint64_t wrong(const std::vector<std::byte>& bytes, DType dtype, Op op, int world) {
  return Pattern(dtype, op, 0, world).count_wrong(ConstTensor(bytes.data(), kCount, dtype));
}

std::vector<std::byte> reduced(DType dtype, Op op, int world) {
  const run::Arithmetic kernel = run::arithmetic(dtype, op);
  std::vector<std::byte> sum = contribution(dtype, op, 0, world);
  for (int rank = 1; rank < world; rank++)
    kernel.combine(sum.data(), sum.data(), contribution(dtype, op, rank, world).data(), kCount);
  if (op == Op::average) run::scaling(dtype, world, 1).apply(sum.data(), kCount);
  return sum;
}

constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8,  DType::u8,
                            DType::i16, DType::u16,  DType::i32, DType::u32, DType::i64, DType::u64};
constexpr Op kOps[] = {Op::sum, Op::average, Op::min, Op::max, Op::product};

TEST(Pattern, ExpectsWhatAReductionGives) {
  for (const DType dtype : kTypes)
    for (const Op op : kOps)
      for (const int world : {1, 2, 3, 7})
        EXPECT_EQ(wrong(reduced(dtype, op, world), dtype, op, world), 0U)
            << name(dtype) << " " << name(op) << " of " << world;
}

// More ranks than the narrowest types can count.
TEST(Pattern, IsExactInLargeWorlds) {
  for (const Op op : {Op::sum, Op::product})
    EXPECT_EQ(wrong(reduced(DType::bf16, op, 130), DType::bf16, op, 130), 0U) << name(op);
  EXPECT_EQ(wrong(reduced(DType::i8, Op::average, 130), DType::i8, Op::average, 130), 0U);
}

TEST(Pattern, CountsEveryWrongElement) {
  std::vector<std::byte> result = reduced(DType::f32, Op::sum, 3);
  for (const std::size_t at : {0UL, 1020UL, 1021UL, kCount - 1}) result[at * sizeof(float) + 1] ^= std::byte{1};
  EXPECT_EQ(wrong(result, DType::f32, Op::sum, 3), 4U);
}

TEST(Pattern, NoticesAMissingRankAndADisplacedChunk) {
  for (const Op op : kOps) {
    std::vector<std::byte> missing = contribution(DType::f32, op, 0, 3);
    EXPECT_GT(wrong(missing, DType::f32, op, 3), kCount / 10) << name(op);
    std::vector<std::byte> displaced = reduced(DType::f32, op, 3);
    std::memmove(displaced.data(), displaced.data() + 4096, displaced.size() - 4096);
    EXPECT_GT(wrong(displaced, DType::f32, op, 3), kCount / 10) << name(op);
  }
}

}  // namespace
}  // namespace anello::bench
