#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace anello::bench {
namespace {

TEST(Statistics, PercentilesAreValuesThatWereMeasured) {
  const std::vector<double> one{7}, four{1, 2, 3, 4};
  EXPECT_EQ(percentile(one, 0.5), 7);
  EXPECT_EQ(percentile(one, 0.99), 7);
  EXPECT_EQ(percentile(four, 0), 1);
  EXPECT_EQ(percentile(four, 0.5), 2);
  EXPECT_EQ(percentile(four, 0.51), 3);
  EXPECT_EQ(percentile(four, 0.99), 4);
  EXPECT_EQ(percentile(four, 1), 4);
  std::vector<double> thousand(1000);
  std::iota(thousand.begin(), thousand.end(), 1);
  EXPECT_EQ(percentile(thousand, 0.5), 500);
  EXPECT_EQ(percentile(thousand, 0.99), 990);
}

TEST(Statistics, AMedianTakesValuesInAnyOrder) {
  EXPECT_EQ(median({30, 10, 20}), 20);
  EXPECT_EQ(median({4, 1, 3, 2}), 2);
}

TEST(Statistics, SummaryTakesDurationsInAnyOrder) {
  std::vector<double> durations{30, 10, 20, 1000, 40};
  const Timing timing = summarize(durations, 1050);
  EXPECT_EQ(timing.p50_us, 30);
  EXPECT_EQ(timing.p99_us, 1000);
  EXPECT_EQ(timing.mean_us, 210);
}

}  // namespace
}  // namespace anello::bench
