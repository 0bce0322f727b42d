// Random numbers, the shares of samples, and the learning rate: tests that they do not depend on machine or world.
#include "trainer/sampler.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "trainer/learning_rate.hpp"
#include "trainer/random.hpp"

namespace anello::trainer {
namespace {

using testing::ElementsAre;

// These numbers must never change: a change would silently change every seed's training.
TEST(Random, IsTheSameEverywhere) {
  Random random(7, Stream::permutation, 3);
  std::vector<int> items(8);
  std::iota(items.begin(), items.end(), 0);
  random.shuffle(std::span(items));
  EXPECT_THAT(items, ElementsAre(4, 0, 5, 6, 3, 7, 2, 1));
  EXPECT_EQ(Random(7, Stream::weights).uniform(), 0x1.6b1f25b363ce5p-1);
}

TEST(Random, StreamsDiffer) {
  std::set<double> first;
  for (const Stream stream : {Stream::weights, Stream::permutation, Stream::draws})
    for (std::uint64_t seed = 0; seed < 3; seed++)
      for (std::uint64_t index = 0; index < 3; index++)
        for (std::uint64_t part = 0; part < 3; part++) first.insert(Random(seed, stream, index, part).uniform());
  EXPECT_EQ(first.size(), 81U);
}

TEST(Random, IsUniform) {
  Random random(1, Stream::draws);
  std::vector<int> counts(7);
  double sum = 0;
  for (int i = 0; i < 70000; i++) {
    counts[random.below(7)]++;
    const double value = random.uniform();
    ASSERT_TRUE(value >= 0 && value < 1);
    sum += value;
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);  // five standard deviations
  EXPECT_NEAR(sum / 70000, 0.5, 0.006);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(PartOf, IsCompleteAndEven) {
  for (const std::size_t total : {0, 1, 3, 4, 7, 96, 1437})
    for (const int size : {1, 2, 3, 4, 7, 8}) {
      std::size_t expected = 0;
      for (int rank = 0; rank < size; rank++) {
        const auto [first, last] = part_of(total, rank, size);
        EXPECT_EQ(first, expected);
        EXPECT_LE(last - first, total / std::size_t(size) + 1);
        EXPECT_GE(last - first, total / std::size_t(size));
        expected = last;
      }
      EXPECT_EQ(expected, total);
    }
}

// Returns the global batches of one epoch, composed of the shares of all ranks.
std::vector<std::vector<std::uint32_t>> batches(int size, std::size_t global_batch, std::size_t epoch,
                                                std::uint64_t seed = 7, std::string_view sampling = "shard") {
  std::vector<std::vector<std::uint32_t>> result;
  for (int rank = 0; rank < size; rank++) {
    Sampler sampler(1438, global_batch, sampling, seed, rank, size);
    sampler.begin_epoch(epoch);
    result.resize(sampler.steps());
    for (std::size_t step = 0; step < sampler.steps(); step++) {
      const auto share = sampler.share(step);
      result[step].insert(result[step].end(), share.begin(), share.end());
      if (rank == size - 1) {
        EXPECT_EQ(result[step].size(), sampler.batch_size(step));
      }
    }
  }
  return result;
}

TEST(Sampler, BatchesAreTheSameInEveryWorld) {
  for (const std::size_t global_batch : {1, 96, 100, 1437, 1438, 5000}) {
    const auto alone = batches(1, global_batch, 2);
    EXPECT_EQ(alone.size(), (1438 + global_batch - 1) / global_batch);
    for (const int size : {2, 3, 4, 7, 8}) EXPECT_EQ(batches(size, global_batch, 2), alone) << size;
  }
}

TEST(Sampler, EverySampleOnceAnEpoch) {
  std::vector<int> seen(1438);
  for (const auto& batch : batches(3, 100, 0))
    for (const auto sample : batch) seen[sample]++;
  EXPECT_THAT(seen, testing::Each(1));
}

TEST(Sampler, ALastBatchOfOneSampleLeavesOtherRanksWithout) {
  Sampler sampler(1438, 1437, "shard", 7, 3, 4);
  sampler.begin_epoch(0);
  EXPECT_EQ(sampler.steps(), 2U);
  EXPECT_EQ(sampler.batch_size(1), 1U);
  EXPECT_TRUE(sampler.share(1).empty());
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  EXPECT_NE(batches(1, 100, 0), batches(1, 100, 1));
  EXPECT_NE(batches(1, 100, 0, 7), batches(1, 100, 0, 8));
  EXPECT_EQ(batches(1, 100, 5, 7), batches(1, 100, 5, 7));
}

TEST(Sampler, RandomDrawsWithASeedForEachRank) {
  const auto drawn = batches(2, 100, 0, 7, "random");
  EXPECT_EQ(drawn, batches(2, 100, 0, 7, "random"));
  EXPECT_NE(drawn, batches(2, 100, 1, 7, "random"));
  const std::vector<std::uint32_t> first(drawn[0].begin(), drawn[0].begin() + 50),
      second(drawn[0].begin() + 50, drawn[0].end());
  EXPECT_NE(first, second);
  std::set<std::uint32_t> all;
  for (const auto& batch : drawn) all.insert(batch.begin(), batch.end());
  EXPECT_LT(*all.rbegin(), 1438U);
  EXPECT_NEAR(double(all.size()), 1438 * (1 - std::exp(-1)), 100);  // drawn with repetition
}

TEST(LearningRate, GrowsWithTheBatchAndWarmsUp) {
  const LearningRate rate{0.05, 128, 10};
  EXPECT_DOUBLE_EQ(rate.scaled(), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.02);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.2);
  EXPECT_DOUBLE_EQ((LearningRate{0.05, 32, 0}.at(0)), 0.05);
}

TEST(Sampler, RefusesNothing) {
  EXPECT_THROW(Sampler(0, 8, "shard", 1, 0, 1), std::invalid_argument);
  EXPECT_THROW(Sampler(8, 0, "shard", 1, 0, 1), std::invalid_argument);
}

}  // namespace
}  // namespace anello::trainer
