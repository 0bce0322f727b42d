// Shares of lists, numbers of steps and learning rates: the same rules as in the Python package.
#include <gmock/gmock.h>
#include <anello/training.hpp>

#include <numeric>

namespace anello {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> numbers(int count) {
  std::vector<int> all(std::size_t(count), 0);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string refusal(const std::vector<int>& items, int rank, int size, Uneven uneven = Uneven::error) {
  try {
    return "a share of " + std::to_string(shard(items, rank, size, uneven).size());
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument ? error.message() : "another code";
  }
}

TEST(Training, SharesAreEveryNthItem) {
  EXPECT_THAT(shard(numbers(6), 0, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(shard(numbers(6), 1, 2), ElementsAre(1, 3, 5));
}

TEST(Training, WhatDoesNotDivideEvenlyIsAnErrorUnlessSaidOtherwise) {
  EXPECT_THAT(refusal(numbers(10), 0, 4), HasSubstr("10 items cannot be divided evenly between 4 ranks: 2 are left"));
  EXPECT_THAT(shard(numbers(10), 1, 4, Uneven::drop), ElementsAre(1, 5));
  EXPECT_THAT(shard(numbers(10), 1, 4, Uneven::repeat), ElementsAre(1, 5, 9));
  EXPECT_THAT(shard(numbers(10), 3, 4, Uneven::repeat), ElementsAre(3, 7, 1));
  EXPECT_THAT(shard(numbers(1), 3, 5, Uneven::repeat), ElementsAre(0));
}

TEST(Training, WrongSharesAreRefused) {
  EXPECT_THAT(refusal(numbers(3), 4, 4), HasSubstr("rank 4 is not one of 4 ranks"));
  EXPECT_THAT(refusal(numbers(3), 0, 4, Uneven::drop), HasSubstr("3 items are too few for 4 ranks"));
  EXPECT_THAT(refusal({}, 0, 1, Uneven::repeat), HasSubstr("0 items are too few"));
  EXPECT_THAT(refusal(numbers(3), 0, 0), HasSubstr("not one of 0 ranks"));
}

TEST(Training, StepsAndRates) {
  EXPECT_EQ(steps_per_epoch(1000, 10, 4), 25u);
  EXPECT_EQ(steps_per_epoch(1039, 10, 4), 25u);
  EXPECT_THROW((void)steps_per_epoch(39, 10, 4), Error);
  EXPECT_THROW((void)steps_per_epoch(1000, 0, 4), Error);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, 512, 128), 0.4);
  EXPECT_DOUBLE_EQ(warm_up(0, 3), 0.25);
  EXPECT_DOUBLE_EQ(warm_up(2, 3), 0.75);
  EXPECT_DOUBLE_EQ(warm_up(3, 3), 1);
  EXPECT_DOUBLE_EQ(warm_up(0, 1, 0.5), 0.75);
  EXPECT_DOUBLE_EQ(warm_up(0, 0), 1);
}

}  // namespace
}  // namespace anello
