// Reproducible mode: with every algorithm and transport, a reduction has the bits of a sum that is added up in rank
// order.
#include <gmock/gmock.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/support/algorithms.hpp"
#include "tests/support/random.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using testing::HasSubstr;

// Floats of very different sizes, whose sum depends on the order.
std::vector<float> contribution(int rank, std::size_t count) {
  Random random(std::uint64_t(rank) + 100);
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(float(random.below(1 << 24)) - (1 << 23), int(random.below(24)) - 12);
  return values;
}

std::vector<float> in_rank_order(int ranks, std::size_t count) {
  std::vector<float> sum = contribution(0, count);
  for (int rank = 1; rank < ranks; rank++) {
    const std::vector<float> next = contribution(rank, count);
    for (std::size_t i = 0; i < count; i++) sum[i] += next[i];
  }
  return sum;
}

template <class Values>
Values in_memory(const std::vector<typename Values::value_type>& values) {
  return {values.begin(), values.end()};
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

Settings reproducible_mode() {
  Settings settings = Settings::from_environment();
  settings.reproducible = 1;
  return settings;
}

// The algorithms that add in rank order; with `narrow`, those that also do so for types of 16 bits.
std::vector<std::string> in_order(bool narrow) {
  return algorithms_if([&](Algorithm algorithm) { return reproducible(algorithm, narrow); });
}

class ReproducibleIn : public testing::TestWithParam<int> {
 protected:
  static void run(const std::function<void(World&)>& body) {
    for (const int slab_bytes : kSlowdown > 1 ? std::vector<int>{3000} : std::vector<int>{-1, 0, 3000}) {
      Settings settings = reproducible_mode();
      settings.slab_bytes = slab_bytes;
      run_world(GetParam(), body, settings);
    }
  }
};
// Only plain runs use worlds of all sizes, to check the bits. Sanitizers check the code, which is the same for all
// sizes.
INSTANTIATE_TEST_SUITE_P(Ranks, ReproducibleIn,
                         testing::ValuesIn(kSlowdown > 1 ? std::vector<int>{3} : std::vector<int>{2, 3, 4, 7, 8}));

constexpr std::size_t kCounts[] = {1, 5, 1000, 70'001};

// The sums by count, computed once for all ranks, algorithms and slabs.
using Sums = std::map<std::size_t, std::vector<float>>;
Sums sums_in_rank_order(int ranks, std::size_t times = 1) {
  Sums sums;
  for (const std::size_t count : kCounts) sums[count] = in_rank_order(ranks, count * times);
  return sums;
}

TEST_P(ReproducibleIn, AllreduceIsTheSumInRankOrderByEveryAlgorithm) {
  const Sums sums = sums_in_rank_order(GetParam());
  run([&](World& world) {
    for (const auto& [count, sum] : sums) {
      const std::vector<float> input = contribution(world.rank(), count);
      for (const std::string& algorithm : and_auto(in_order(false))) {
        std::vector<float> values = input;
        world.allreduce(values, Op::sum, {.algorithm = algorithm});
        EXPECT_TRUE(same_bits(values, sum)) << algorithm << " of " << count;
      }
    }
  });
}

// Checks tensors in this kind of memory.
template <class Floats>
void expect_in_rank_order(World& world, const Sums& sums, const Sums& whole_sums) {
  const auto n = std::size_t(world.size());
  for (const auto& [count, sum] : sums) {
    const std::vector<float> input = contribution(world.rank(), count);
    for (const int root : {0, world.size() / 2, world.size() - 1}) {
      Floats values = in_memory<Floats>(input);
      world.reduce(values, root);
      EXPECT_TRUE(same_bits(values, world.rank() == root ? sum : input));
    }
    Floats all = in_memory<Floats>(contribution(world.rank(), count * n)), part(count);
    world.reduce_scatter(all, part);
    EXPECT_TRUE(same_bits(part, std::span(whole_sums.at(count)).subspan(count * std::size_t(world.rank()), count)));
  }
}

TEST_P(ReproducibleIn, ReduceAndReduceScatterAreToo) {
  const Sums sums = sums_in_rank_order(GetParam());
  const Sums whole_sums = sums_in_rank_order(GetParam(), std::size_t(GetParam()));
  run([&](World& world) {
    expect_in_rank_order<std::vector<float>>(world, sums, whole_sums);
    expect_in_rank_order<std::vector<float, Allocator<float>>>(world, sums, whole_sums);
  });
}

TEST_P(ReproducibleIn, ListsAndTheirPiecesHaveTheSameBits) {
  static constexpr std::size_t kCount = 30'000;
  const std::vector<float> expected = in_rank_order(GetParam(), kCount);
  run([&](World& world) {
    for (const std::size_t piece : {100u, 999u, 30'000u}) {
      std::vector<float> values = contribution(world.rank(), kCount);
      std::vector<Tensor> list;
      for (std::size_t at = 0; at < kCount; at += piece)
        list.emplace_back(std::span(values).subspan(at, std::min(piece, kCount - at)));
      world.allreduce(std::span<const Tensor>(list));
      EXPECT_TRUE(same_bits(values, expected)) << "pieces of " << piece;
    }
  });
}

// Elements are sent in 16 bits; all sizes and algorithms round them in the same way.
TEST_P(ReproducibleIn, NarrowElementsHaveTheSameBitsByEveryAlgorithm) {
  run([](World& world) {
    const std::vector<float> input = contribution(world.rank(), 70'001);
    std::vector<float> two_shot = input;
    world.allreduce(two_shot, Op::sum, {.algorithm = "two_shot", .wire = DType::bf16});
    for (const std::string& algorithm : and_auto(in_order(true)))
      for (const std::size_t count : kCounts) {
        std::vector<float> values(input.begin(), input.begin() + std::ptrdiff_t(count));
        world.allreduce(values, Op::sum, {.algorithm = algorithm, .wire = DType::bf16});
        EXPECT_TRUE(same_bits(values, std::span(two_shot).first(count))) << algorithm << " of " << count;
      }
  });
}

// Numbers of 16 bits, their sum in f32 in rank order, and the nearest number of 16 bits.
template <class Half>
std::vector<Half> halves(int rank, std::size_t count) {
  std::vector<float> values = contribution(rank, count);
  for (float& value : values) value = std::ldexp(value, -22);
  std::vector<Half> narrow(count);
  convert(values, std::span(narrow));
  return narrow;
}
template <class Half>
std::vector<Half> rounded_once(int ranks, std::size_t count) {
  std::vector<float> sum(count), next(count);
  convert(halves<Half>(0, count), std::span(sum));
  for (int rank = 1; rank < ranks; rank++) {
    convert(halves<Half>(rank, count), std::span(next));
    for (std::size_t i = 0; i < count; i++) sum[i] += next[i];
  }
  std::vector<Half> result(count);
  convert(sum, std::span(result));
  return result;
}
template <class Half>
bool same_halves(std::span<const Half> a, std::span<const Half> b) {
  return std::ranges::equal(a, b, {}, &Half::bits, &Half::bits);
}

// Checks tensors in this kind of memory.
template <class Halves>
void expect_one_rounding(World& world) {
  using Half = typename Halves::value_type;
  for (const std::size_t count : {5, 9'001}) {
    const auto n = std::size_t(world.size());
    const std::vector<Half> expected = rounded_once<Half>(world.size(), count * n);
    const std::span<const Half> first = std::span(expected).first(count);
    for (const std::string& algorithm : and_auto(in_order(true))) {
      Halves values = in_memory<Halves>(halves<Half>(world.rank(), count));
      world.allreduce(values, Op::sum, {.algorithm = algorithm});
      EXPECT_TRUE(same_halves<Half>(values, first)) << algorithm << " of " << count;
    }
    Halves values = in_memory<Halves>(halves<Half>(world.rank(), count));
    world.reduce(values, 1);
    const bool right = world.rank() != 1 || same_halves<Half>(values, first);
    EXPECT_TRUE(right) << "reduce of " << count;
    Halves all = in_memory<Halves>(halves<Half>(world.rank(), count * n)), part(count);
    world.reduce_scatter(all, part);
    const std::span<const Half> own = std::span(expected).subspan(count * std::size_t(world.rank()), count);
    EXPECT_TRUE(same_halves<Half>(part, own)) << "reduce_scatter of " << count;
  }
}

TEST_P(ReproducibleIn, SumsOfHalvesAreRoundedOnce) {
  run_world(
      GetParam(),
      [](World& world) {
        expect_one_rounding<std::vector<f16>>(world);
        expect_one_rounding<std::vector<bf16>>(world);
        expect_one_rounding<std::vector<f16, Allocator<f16>>>(world);
        expect_one_rounding<std::vector<bf16, Allocator<bf16>>>(world);
      },
      reproducible_mode());
}

TEST(Reproducible, AlgorithmsThatCannotAreRefusedWithTheReason) {
  run_world(
      3,
      [](World& world) {
        std::vector<float> values(10);
        const auto told = [&](std::string_view algorithm, std::optional<DType> wire) -> std::string {
          try {
            world.allreduce(values, Op::sum, {.algorithm = algorithm, .wire = wire});
          } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::configuration);
            return e.what();
          }
          return "none";
        };
        for (const Algorithm algorithm : all_algorithms()) {
          if (!reproducible(algorithm))
            EXPECT_THAT(told(name(algorithm), {}), HasSubstr("cannot be forced in reproducible mode: it does not add "
                                                             "in rank order; take 'auto', star, "));
          else if (!reproducible(algorithm, true))
            EXPECT_THAT(told(name(algorithm), DType::f16),
                        HasSubstr("does not round 16-bit sums once; take 'auto' or two_shot"));
          else
            EXPECT_EQ(told(name(algorithm), DType::f16), "none");
        }
        std::vector<bf16> halves(10);
        EXPECT_THROW(world.allreduce(halves, Op::sum, {.algorithm = "star"}), Error) << "it rounds after each addition";
        world.barrier();
      },
      reproducible_mode());
}

// Shows that the test can fail: a ring's sum has other bits.
TEST(Reproducible, WithoutItARingHasOtherBits) {
  run_world(
      3,
      [](World& world) {
        std::vector<float> values = contribution(world.rank(), 1000);
        world.allreduce(values, Op::sum, {.algorithm = "ring"});
        EXPECT_FALSE(same_bits(values, in_rank_order(3, 1000)));
      },
      Settings::from_environment());
}

}  // namespace
}  // namespace anello::group
