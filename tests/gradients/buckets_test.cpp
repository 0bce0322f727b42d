#include "ring/gradients/buckets.hpp"

#include <gmock/gmock.h>

#include "tests/support/random.hpp"

namespace anello::gradients {
namespace {

using testing::ElementsAre;

struct Sizes {
  std::vector<Tensor> tensors;

  void add(std::uint64_t count, DType dtype = DType::f32) { tensors.emplace_back(nullptr, count, dtype); }
};

TEST(Buckets, FollowTheOrderAndAreFullAtTheirMost) {
  Sizes sizes;
  for (const std::uint64_t count : {10, 20, 30}) sizes.add(count);
  EXPECT_THAT(make_buckets(sizes.tensors, std::vector<std::uint32_t>{2, 1, 0}, 200),
              ElementsAre(Bucket{{2, 0, 30}, {1, 0, 20}}, Bucket{{0, 0, 10}}));
}

TEST(Buckets, HoldHalfOfWhatIsLeftAtTheEndButNoLessThanIsWorthwhile) {
  constexpr std::uint64_t kMin = kWorthwhileBucketBytes / 4;
  Sizes sizes;
  for (const std::uint64_t count : {kMin, 12 * kMin}) sizes.add(count);
  EXPECT_THAT(
      make_buckets(sizes.tensors, std::vector<std::uint32_t>{1, 0}, 4 * kWorthwhileBucketBytes),
      ElementsAre(Bucket{{1, 0, 4 * kMin}}, Bucket{{1, 4 * kMin, 4 * kMin}}, Bucket{{1, 8 * kMin, 5 * kMin / 2}},
                  Bucket{{1, 21 * kMin / 2, 5 * kMin / 4}}, Bucket{{1, 47 * kMin / 4, kMin / 4}, {0, 0, 3 * kMin / 4}},
                  Bucket{{0, 3 * kMin / 4, kMin / 4}}));
}

TEST(Buckets, ALargeGradientIsSplit) {
  Sizes sizes;
  for (const std::uint64_t count : {10, 100}) sizes.add(count);
  EXPECT_THAT(make_buckets(sizes.tensors, std::vector<std::uint32_t>{0, 1}, 160),
              ElementsAre(Bucket{{0, 0, 10}, {1, 0, 30}}, Bucket{{1, 30, 40}}, Bucket{{1, 70, 30}}));
}

TEST(Buckets, HaveOneTypeEachAndComeAsTheirLastGradientDoes) {
  Sizes sizes;
  for (const DType dtype : {DType::f32, DType::f64, DType::f32, DType::bf16, DType::f64}) sizes.add(10, dtype);
  EXPECT_THAT(make_buckets(sizes.tensors, std::vector<std::uint32_t>{0, 1, 2, 3, 4}, 1000),
              ElementsAre(Bucket{{0, 0, 10}, {2, 0, 10}}, Bucket{{3, 0, 10}}, Bucket{{1, 0, 10}, {4, 0, 10}}));
}

TEST(Buckets, OfNothingAreNone) {
  Sizes sizes;
  EXPECT_TRUE(make_buckets(sizes.tensors, {}, 100).empty());
  sizes.add(0);
  EXPECT_TRUE(make_buckets(sizes.tensors, std::vector<std::uint32_t>{0}, 100).empty());
}

// For any drawn gradients, every element is in exactly one bucket, and each bucket has one type and is not too large.
TEST(Buckets, HaveEveryElementOnce) {
  for (const std::uint64_t seed : seeds(300)) {
    SCOPED_TRACE(replay(seed));
    Random random(seed);
    Sizes sizes;
    std::vector<std::uint32_t> order;
    const std::vector<DType> dtypes{DType::f16, DType::f32, DType::f64};
    for (std::uint64_t k = random.below(40); k > 0; k--) {
      order.push_back(std::uint32_t(sizes.tensors.size()));
      sizes.add(random.below(200), random.one_of(dtypes));
    }
    random.shuffle(order);
    const std::uint64_t most = random.from(1, 1000);
    std::vector<std::uint64_t> covered(sizes.tensors.size());
    for (const Bucket& bucket : make_buckets(sizes.tensors, order, most)) {
      ASSERT_FALSE(bucket.empty());
      std::uint64_t bytes = 0;
      for (const GradientPiece& piece : bucket) {
        const Tensor& its = sizes.tensors[piece.parameter];
        EXPECT_EQ(its.dtype, sizes.tensors[bucket[0].parameter].dtype);
        EXPECT_EQ(piece.first, covered[piece.parameter]) << "pieces come from the front";
        EXPECT_GT(piece.count, 0u);
        covered[piece.parameter] += piece.count;
        bytes += piece.count * size_bytes(its.dtype);
      }
      EXPECT_LE(bytes, std::max<std::uint64_t>(most, 8));
    }
    for (std::size_t k = 0; k < covered.size(); k++) EXPECT_EQ(covered[k], sizes.tensors[k].count);
  }
}

}  // namespace
}  // namespace anello::gradients
