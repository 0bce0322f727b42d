// Allreduce in worlds of threads over real sockets: every size of world, every algorithm, every type and reduction.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "ring/algorithms/plans.hpp"
#include "ring/base/element_types.hpp"
#include "ring/base/text.hpp"
#include "tests/support/algorithms.hpp"
#include "tests/support/random.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

struct Reduction {
  DType dtype;
  Op op;
};
const std::vector<Reduction> kReductions = [] {
  std::vector<Reduction> all;
  for (const DType dtype : kElementTypes)
    for (int op = int(Op::sum); op <= int(Op::bit_xor); op++)
      if (can_reduce(dtype, Op(op))) all.push_back({dtype, Op(op)});
  return all;
}();
const std::vector<std::string> kAlgorithms = and_auto(algorithms_by_name());
constexpr int kSmallBuffers = 4096;  // every move is partial

Settings with(const std::string& algorithm, int buffer_bytes = 0, int slab_bytes = Settings().slab_bytes) {
  Settings settings = Settings::from_environment();
  settings.algorithm = algorithm;
  settings.socket_buffer_bytes = buffer_bytes;
  if (buffer_bytes > 0) settings.shm_bytes = buffer_bytes == kSmallBuffers ? 1024 : buffer_bytes;
  settings.slab_bytes = slab_bytes;
  return settings;
}

// Returns combination number n of all; it is equal on all ranks.
Exercise rotating(std::size_t n, std::uint64_t count) {
  const Reduction& reduction = kReductions[n % kReductions.size()];
  return {
      .kind = Kind::allreduce, .op = reduction.op, .dtype = reduction.dtype, .count = count, .in_place = n % 2 == 1};
}

void expect_right(World& world, const Exercise& exercise) {
  EXPECT_EQ(carry_out(world, exercise), "");
}

class InWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InWorldsOf, testing::ValuesIn(world_sizes()));

// Uses counts near the number of ranks, and some larger counts, with small and with usual buffers.
TEST_P(InWorldsOf, EveryAlgorithmIsRight) {
  const auto n = std::uint64_t(GetParam());
  std::size_t combination = 0;
  for (const std::string& algorithm : kAlgorithms)
    for (const int buffer_bytes : {0, kSmallBuffers}) {
      SCOPED_TRACE(text(algorithm, ", buffers of ", buffer_bytes));
      const std::size_t first = combination;
      const std::vector<std::uint64_t> counts = {0, 1, n - 1, n, n + 1, 1000, 20'003};
      run_world(
          GetParam(),
          [&](World& world) {
            std::size_t k = first;
            for (const std::uint64_t count : counts) expect_right(world, rotating(k++, count));
          },
          with(algorithm, buffer_bytes));
      combination += counts.size();
    }
}

TEST_P(InWorldsOf, MemoryThatPeersCanMap) {
  // Counts within a slab and beyond a slab; under sanitizers, which are slow, only a count beyond a slab.
  const std::vector<std::uint64_t> counts =
      kSlowdown > 1 ? std::vector<std::uint64_t>{70'003} : std::vector<std::uint64_t>{30'011, 100'003};
  for (const std::string& algorithm : kAlgorithms)
    run_world(
        GetParam(),
        [&](World& world) {
          for (const std::uint64_t count : counts)
            for (const bool in_place : {false, true})
              expect_right(world, {.dtype = DType::f32, .count = count, .in_place = in_place, .shareable = true});
        },
        with(algorithm, 0, 1 << 18));
}

// The sum does not fit f16.
TEST_P(InWorldsOf, AnAverageInF16OverflowsOnlyIfTheMeanDoes) {
  run_world(GetParam(), [](World& world) {
    constexpr float kEach = 40'000, kNear = kEach / 256;
    for (const std::string& algorithm : kAlgorithms) {
      std::vector<f16> halves(1000, f16(kEach));
      world.allreduce(halves, Op::average, {.algorithm = algorithm});
      EXPECT_NEAR(float(halves[999]), kEach, kNear) << algorithm;
      std::vector<float> floats(1000, kEach);
      world.allreduce(floats, Op::average, {.algorithm = algorithm, .wire = DType::f16});
      EXPECT_NEAR(floats[999], kEach, kNear) << algorithm << ", floats";
    }
    std::vector<f16> input(10 * std::size_t(world.size()), f16(kEach)), output(10);
    world.reduce_scatter(input, output, Op::average);
    EXPECT_NEAR(float(output[9]), kEach, kNear);
    world.reduce(input, 0, Op::average, {.prescale = 0.5});
    EXPECT_NEAR(float(input[9]), world.rank() == 0 ? kEach / 2 : kEach, kNear);
  });
}

TEST(Allreduce, EveryTypeWithEveryReduction) {
  run_world(3, [](World& world) {
    for (std::size_t k = 0; k < kReductions.size(); k++)
      for (const bool in_place : {false, true}) {
        Exercise exercise = rotating(k, 1001);
        exercise.in_place = in_place;
        expect_right(world, exercise);
      }
  });
}

TEST(Allreduce, AMillionElements) {
  for (const int ranks : {2, 3, 4, 7})
    for (const int buffer_bytes : {0, 65536}) {
      if (ranks != 3 && (kSlowdown > 1 || buffer_bytes > 0)) continue;
      run_world(
          ranks,
          [](World& world) {
            for (const bool in_place : {false, true})
              expect_right(world, {.dtype = DType::f32, .count = 1'000'003, .in_place = in_place});
          },
          with("auto", buffer_bytes));
    }
}

TEST(Allreduce, TakesTheAlgorithmOfTheCall) {
  run_world(3, [](World& world) {
    constexpr std::array<std::optional<std::int64_t>, 5> kSlabs = {std::nullopt, 0, 3000, 1LL << 40, std::nullopt};
    std::vector<std::string> given = kAlgorithms;
    given.insert(given.begin() + 3, {"", "ring"});
    for (const std::string& algorithm : given)
      for (const std::optional<std::int64_t> slab_bytes : kSlabs) {
        std::vector<int> values(5000, world.rank() + 1);
        world.allreduce(values, Op::sum, {.algorithm = algorithm, .slab_bytes = slab_bytes});
        ASSERT_EQ(values, std::vector<int>(5000, 6)) << algorithm << " " << slab_bytes.value_or(-1);
      }
  });
}

TEST(Allreduce, ElementsTravelIn16Bits) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const DType wire : {DType::f16, DType::bf16})
      for (const bool in_place : {false, true})
        for (const std::uint64_t count : {1, 100, 70'001})
          run_world(
              4,
              [&](World& world) {
                const Exercise exercise{
                    .op = Op::average, .dtype = dtype, .count = count, .in_place = in_place, .wire = wire};
                EXPECT_EQ(carry_out(world, exercise), "");
                Exercise scattered = exercise;
                scattered.kind = Kind::reduce_scatter;
                EXPECT_EQ(carry_out(world, scattered), "");
              },
              with("auto", count == 100 ? kSmallBuffers : 0));
}

TEST(Allreduce, OverSeveralConnections) {
  for (const int connections : {2, 7}) {
    Settings settings = with("auto", kSmallBuffers);
    settings.transport = "tcp";
    settings.connections = connections;
    run_world(
        3,
        [](World& world) {
          std::vector<int> values(200'000);
          for (std::size_t i = 0; i < values.size(); i++) values[i] = int(i) * (world.rank() + 1);
          world.allreduce(values);
          for (std::size_t i = 0; i < values.size(); i++) ASSERT_EQ(values[i], int(i) * 6);
        },
        settings);
  }
}

TEST(Allreduce, SlabsFollowEachOther) {
  for (const std::string& algorithm : kAlgorithms)
    run_world(
        4,
        [](World& world) {
          for (const std::uint64_t count : {999, 1000, 1001, 1024, 50'000})
            expect_right(world, {.dtype = DType::i16, .count = count, .in_place = count % 2 == 1});
        },
        with(algorithm, kSmallBuffers, 2000));
}

// The sum of floats depends on the order, so equal bits mean that all ranks have used the same order.
TEST(Allreduce, FloatsHaveEqualBitsOnAllRanksAndInEveryRun) {
  for (const int ranks : {2, 4, 7})
    for (const std::string& algorithm : kAlgorithms) {
      std::mutex mutex;
      std::set<std::vector<float>> results;
      for (int run = 0; run < 2; run++)
        run_world(
            ranks,
            [&](World& world) {
              Random random(std::uint64_t(world.rank()) + 1);
              std::vector<float> data(3001);
              for (float& x : data) x = std::ldexp(float(random.below(1 << 24)), int(random.below(40)) - 20);
              world.allreduce(data);
              const std::lock_guard lock(mutex);
              results.insert(data);
            },
            with(algorithm));
      EXPECT_EQ(results.size(), 1) << ranks << " ranks, " << algorithm;
    }
}

TEST(Allreduce, ANanOfAnyRankWinsMinAndMax) {
  run_world(4, [](World& world) {
    for (int owner = 0; owner < 4; owner++)
      for (const Op op : {Op::min, Op::max}) {
        std::vector<float> data(10, 1.F);
        if (world.rank() == owner) data[7] = std::numeric_limits<float>::quiet_NaN();
        world.allreduce(data, op);
        for (std::size_t i = 0; i < data.size(); i++) EXPECT_EQ(std::isnan(data[i]), i == 7) << name(op) << " " << i;
      }
  });
}

TEST(Allreduce, AverageOfOneNumber) {
  for (const int ranks : {1, 2, 5})
    run_world(ranks, [&](World& world) { EXPECT_EQ(world.average(double(world.rank())), (ranks - 1) / 2.0); });
}

TEST(Allreduce, IntegersWrapAndAveragesTruncate) {
  run_world(3, [](World& world) {
    std::vector<std::uint8_t> wrap = {200};
    world.allreduce(wrap);
    EXPECT_EQ(wrap[0], 600 % 256);
    std::vector<std::int32_t> mean = {-3 + world.rank() % 2};  // -3, -2, -3
    world.allreduce(mean, Op::average);
    EXPECT_EQ(mean[0], -2);
  });
}

// Each call needs a plan of its own, so old plans are forgotten.
TEST(Allreduce, MoreShapesThanAreRemembered) {
  run_world(2, [](World& world) {
    for (std::uint64_t count = 1; count <= 1100; count++) {
      std::vector<std::uint8_t> data(count, 1);
      world.allreduce(data);
      if (data.front() != 2 || data.back() != 2) FAIL() << count;
    }
    expect_right(world, {.count = 5});
  });
}

TEST(Allreduce, AnUnknownAlgorithmIsRefusedWithThoseThereAre) {
  try {
    run_world(
        2, [](World&) {}, with("rings"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::configuration);
    EXPECT_EQ(e.what(), text("ANELLO_ALGORITHM must be one of ", algorithm_names(), "; not 'rings'"));
  }
}

// The shorter forms of the call.
TEST(Allreduce, OfNumbersOfListsAndWithOptionsOnly) {
  run_world(3, [](World& world) {
    EXPECT_EQ(world.sum(world.rank() + 1), 6);
    EXPECT_EQ(world.max(double(world.rank())), 2.0);
    EXPECT_EQ(world.min(std::uint8_t(world.rank() + 5)), 5);
    EXPECT_TRUE(world.sum(world.rank() == 2)) << "any";
    std::vector<float> a(3, 1), b(5, 2), c(3);
    world.allreduce({a, b});
    EXPECT_EQ(a[2] + b[4], 9.0F);
    world.allreduce_async({a, b}, Op::average).wait();
    EXPECT_EQ(a[2] + b[4], 9.0F);
    world.broadcast({a, b}, 1);
    world.broadcast_async({a, b}, 1).wait();
    world.allreduce(a, {.name = "named", .wire = DType::f16});
    EXPECT_EQ(a[0], 9.0F);
    world.allreduce(a, c, {.postscale = 2});
    EXPECT_EQ(c[0], 54.0F);
    world.allreduce_async(c, {.prescale = 0.5}).wait();
    EXPECT_EQ(c[0], 81.0F);
    world.allreduce(Tensor(c.data(), 2));
    EXPECT_EQ(c[1] + c[2], 243.0F + 81.0F);
    std::vector<float> d(3, 2), e(3), f(1);
    world.reduce(d, e, 0, {.postscale = 2});
    world.reduce_async(d, e, 0, {.postscale = 2}).wait();
    EXPECT_EQ(e[0], world.rank() == 0 ? 12.0F : 0.0F);
    world.reduce_scatter(d, f, {.prescale = 0.5});
    EXPECT_EQ(f[0], 3.0F);
    world.reduce_scatter_async(d, f, {.postscale = 3}).wait();
    EXPECT_EQ(f[0], 18.0F);
    world.reduce(d, 1, {.prescale = 2});
    world.reduce_async(f, 1, {.name = "named"}).wait();
    EXPECT_EQ(d[0] + f[0], world.rank() == 1 ? 12.0F + 54.0F : 2.0F + 18.0F);
  });
}

}  // namespace
}  // namespace anello::group
