// Properties of collectives that tests/conformance does not have: lists, factors of each rank, barriers, programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "ring/run/elementwise.hpp"
#include "tests/support/random.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

void expect_right_collective(World& world, const Exercise& exercise) {
  EXPECT_EQ(carry_out(world, exercise), "");
}

class CollectivesInWorldsOf : public testing::TestWithParam<int> {
 protected:
  // Runs `body` in a world with usual buffers, and in one with small buffers.
  void run(const std::function<void(World&)>& body) {
    Settings settings = Settings::from_environment();
    run_world(GetParam(), body, settings);
    settings.socket_buffer_bytes = 4096;
    settings.shm_bytes = 1024;
    settings.slab_bytes = 3000;
    run_world(GetParam(), body, settings);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesInWorldsOf, testing::ValuesIn(world_sizes()));

// This test also finds errors in signatures that are sent in parts; combinations of only three arguments do not find
// these errors. It uses numbers that every type can represent, so that all results are exact.
TEST_P(CollectivesInWorldsOf, FactorsBeforeAndAfterTheReduction) {
  run([&](World& world) {
    for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::reduce_scatter})
      for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
        for (const Op op : {Op::sum, Op::min, Op::max})
          for (const bool in_place : {false, true})
            expect_right_collective(world, {.kind = kind,
                                            .op = op,
                                            .dtype = dtype,
                                            .count = 1003,
                                            .root = world.size() - 1,
                                            .in_place = in_place,
                                            .prescale = 4,
                                            .postscale = op == Op::max ? 1 : 0.5});
  });
}

TEST_P(CollectivesInWorldsOf, AverageWithAFactor) {
  run([](World& world) {
    std::vector<float> values(1000, float(world.rank() + 1));
    world.allreduce(values, Op::average, {.prescale = 2, .postscale = 3});
    for (const float value : values) ASSERT_FLOAT_EQ(value, 3.F * float(world.size() + 1));
  });
}

TEST_P(CollectivesInWorldsOf, EachRankWeighsItsOwn) {
  run([](World& world) {
    const std::vector<float> ones(5, 1.F);
    std::vector<float> sums(5);
    world.allreduce(ones, sums, Op::sum, {.prescale = double(world.rank())});
    for (const float value : sums) ASSERT_EQ(value, float(world.size() * (world.size() - 1) / 2));
    EXPECT_EQ(ones, std::vector<float>(5, 1.F));
  });
}

TEST_P(CollectivesInWorldsOf, AllreduceOfAList) {
  run([](World& world) {
    const std::vector<std::size_t> counts = {0, 3, 1, 0, 5000, 2, 0};
    for (const Op op : {Op::sum, Op::average}) {
      std::vector<std::vector<double>> memory;
      std::vector<Tensor> list;
      for (const std::size_t count : counts) memory.emplace_back(count + 1, double(world.rank()));
      for (std::size_t k = 0; k < counts.size(); k++) list.emplace_back(memory[k].data(), counts[k], DType::f64);
      world.allreduce(list, op, {.prescale = 2});
      const double sum = double(world.size() * (world.size() - 1));
      for (std::size_t k = 0; k < counts.size(); k++)
        for (std::size_t i = 0; i <= counts[k]; i++)
          ASSERT_EQ(memory[k][i], i == counts[k] ? double(world.rank()) : op == Op::sum ? sum : sum / world.size());
    }
    world.allreduce(std::span<const Tensor>());
  });
}

// There are more allocations than peers keep mapped; each is freed before the next is made.
TEST(Collectives, MemoryComesAndGoes) {
  run_world(2, [](World& world) {
    const std::ptrdiff_t before = open_descriptors();
    for (int k = 0; k < 200; k++)
      expect_right_collective(world, {.dtype = DType::f32, .count = 30'011, .in_place = k % 2 == 0, .shareable = true});
    world.barrier();
    EXPECT_LE(open_descriptors(), before + 8) << "each rank of this process may be ahead by an exercise";
    world.barrier();
  });
}

// A list is sent as one operation; each of its tensors has separate memory, and some are empty.
TEST_P(CollectivesInWorldsOf, BroadcastOfAList) {
  run([](World& world) {
    for (int root = 0; root < world.size(); root++) {
      const std::vector<std::size_t> counts = {0, 3, 1, 0, 1000, 2, 0};
      std::vector<std::vector<float>> memory;
      std::vector<Tensor> list;
      for (const std::size_t count : counts) memory.emplace_back(count + 1, -1.F);  // one behind each stays as it is
      for (std::size_t k = 0; k < counts.size(); k++) list.emplace_back(memory[k].data(), counts[k], DType::f32);
      for (std::size_t k = 0; world.rank() == root && k < counts.size(); k++)
        std::iota(memory[k].begin(), memory[k].end() - 1, float(100 * k));
      world.broadcast(list, root);
      for (std::size_t k = 0; k < counts.size(); k++)
        for (std::size_t i = 0; i <= counts[k]; i++)
          ASSERT_EQ(memory[k][i], i < counts[k] ? float(100 * k + i) : -1.F) << "tensor " << k << ", element " << i;
    }
    world.broadcast(std::span<const Tensor>(), 0);
    world.broadcast(Tensor(nullptr, 0, DType::f32), 0);
  });
}

// The bytes of elements with these values. Compare such vectors with memcmp, since operator== would compare each byte
// by itself.
std::vector<std::byte> stored(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
  with_type(dtype, [&]<class T>() {
    std::ranges::transform(values, reinterpret_cast<T*>(bytes.data()), [](float value) { return T(value); });
  });
  return bytes;
}
bool same_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

// Divides this memory into tensors of very different sizes, from zero to thousands of elements.
std::vector<Tensor> as_list(std::vector<std::byte>& memory, DType dtype) {
  constexpr std::array<std::size_t, 8> kCounts = {1, 3, 0, 700, 5, 127, 129, 4001};
  const std::size_t bytes = size_bytes(dtype), elems = memory.size() / bytes;
  std::vector<Tensor> list;
  for (std::size_t at = 0, k = 0; at < elems; k++) {
    const std::size_t count = std::min(kCounts[k * k % 61 % kCounts.size()], elems - at);
    list.emplace_back(memory.data() + at * bytes, count, dtype);
    at += count;
  }
  return list;
}

TEST_P(CollectivesInWorldsOf, AListHasTheBitsOfOneTensor) {
  struct Case {
    DType dtype;
    std::optional<DType> wire;
  };
  run([](World& world) {
    for (const Case& each : {Case{DType::f32, {}}, Case{DType::f32, DType::bf16}, Case{DType::f64, DType::f16},
                             Case{DType::bf16, {}}, Case{DType::u8, {}}}) {
      constexpr std::size_t kCount = 60'000;
      std::vector<float> values(kCount);
      for (std::size_t i = 0; i < kCount; i++) values[i] = float(i * 7919 % 1013) / 64 * float(world.rank() + 1);
      std::vector<std::byte> one = stored(each.dtype, values), parts = one;
      const std::vector<Tensor> list = as_list(parts, each.dtype);
      for (const Op op : {Op::sum, Op::max, Op::average}) {
        world.allreduce(Tensor(one.data(), kCount, each.dtype), op, {.wire = each.wire});
        world.allreduce(list, op, {.wire = each.wire});
        ASSERT_TRUE(same_bytes(one, parts)) << name(each.dtype) << ' ' << name(op);
      }
      std::memset(parts.data(), world.rank(), parts.size());
      world.broadcast(list, world.size() - 1);
      std::memset(one.data(), world.size() - 1, one.size());
      ASSERT_TRUE(same_bytes(one, parts)) << name(each.dtype);
    }
  });
}

TEST_P(CollectivesInWorldsOf, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> came = 0;
  run([&](World& world) {
    for (int round = 0; round < 20; round++) {
      if (world.rank() == round % world.size()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      came++;
      world.barrier();
      EXPECT_EQ(came.load() % world.size(), 0) << "round " << round;
      world.barrier();  // before a rank counts again
    }
  });
}

// The operations follow each other, so that ranks are in different operations at the same time.
TEST_P(CollectivesInWorldsOf, AProgramOfAllKinds) {
  run([](World& world) {
    for (std::uint64_t k = 0; k < 20; k++) {
      expect_right_collective(world, {.kind = Kind::allreduce, .dtype = DType::f32, .count = 17 * k});
      expect_right_collective(
          world, {.kind = Kind::broadcast, .dtype = DType::u8, .count = 1 + k, .root = int(k) % world.size()});
      expect_right_collective(world, {.kind = Kind::allgather, .dtype = DType::i16, .count = 3 + k});
      expect_right_collective(world, {.kind = Kind::reduce_scatter, .op = Op::max, .dtype = DType::f64, .count = k});
      if (k % 3 == 0) world.barrier();
    }
    world.finish();
  });
}

TEST(World, KnowsItsRanks) {
  run_world(3, [](World& world) {
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.local_rank(), world.rank());
    EXPECT_EQ(world.local_size(), 3);
    EXPECT_EQ(world.node_rank(), 0);
    EXPECT_EQ(world.node_count(), 1);
    for (int rank = 0; rank < 3; rank++) EXPECT_EQ(world.host(rank), "localhost");
  });
}

TEST(World, Moves) {
  run_world(2, [](World& world) {
    World moved = std::move(world);
    EXPECT_EQ(carry_out(moved, {.count = 5}), "");
    world = std::move(moved);
    EXPECT_EQ(carry_out(world, {.count = 5}), "");
  });
}

}  // namespace
}  // namespace anello::group
