#include "ring/gradients/bucket_tuner.hpp"

#include <gmock/gmock.h>

namespace anello::gradients {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Returns the sizes that the tuner tries, if a step with buckets of a given size takes the time took(size).
template <class Took>
std::vector<std::uint64_t> tried(BucketTuner& tuner, Took took) {
  std::vector<std::uint64_t> all;
  while (!tuner.enough()) {
    all.push_back(tuner.candidate());
    tuner.note(took(tuner.candidate(), all.size()));
  }
  return all;
}

TEST(BucketTuner, TriesSizesInTurnAndKeepsTheFastest) {
  BucketTuner tuner(3 * kMiB);
  const auto all = tried(tuner, [](std::uint64_t bytes, std::size_t) { return milliseconds(bytes == kMiB ? 5 : 7); });
  ASSERT_EQ(all.size(), 18u);
  for (std::size_t k = 0; k < all.size(); k += 3)
    EXPECT_THAT(std::vector(all.begin() + std::ptrdiff_t(k), all.begin() + std::ptrdiff_t(k) + 3),
                testing::ElementsAre(256 * kKiB, kMiB, 4 * kMiB));
  EXPECT_EQ(tuner.fastest(), kMiB);
}

TEST(BucketTuner, TheFirstOfEachAndWhatHappensNowAndThenDoNotCount) {
  BucketTuner tuner(kMiB);
  tried(tuner, [](std::uint64_t bytes, std::size_t step) {
    const bool large = bytes == kMiB;
    if (step <= 2) return milliseconds(large ? 1 : 1000);
    if (step <= 6) return milliseconds(large ? 1 : 20);
    return milliseconds(large ? 10 : 7);
  });
  EXPECT_EQ(tuner.fastest(), 256 * kKiB);
}

TEST(BucketTuner, LittleIsOneBucket) {
  BucketTuner tuner(10);
  EXPECT_EQ(tuner.candidate(), 256 * kKiB);
  BucketTuner whole(kMiB);
  EXPECT_EQ(tried(whole, [](std::uint64_t, std::size_t) { return milliseconds(1); }).size(), 12u) << "256 KiB and all";
}

}  // namespace
}  // namespace anello::gradients
