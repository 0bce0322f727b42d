// Wrong arguments are refused at once, on the rank that has them, and leave the world unchanged.
#include <gmock/gmock.h>

#include <array>
#include <deque>
#include <limits>
#include <span>

#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using testing::Each;
using testing::HasSubstr;

// Every rank makes the call, is refused, and goes on.
void expect_refused(const std::function<void(World&)>& call, const std::string& why, int ranks = 2) {
  run_world(ranks, [&](World& world) {
    try {
      call(world);
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(e.what(), HasSubstr(why));
    }
    EXPECT_EQ(carry_out(world, {.count = 10}), "") << "after: " << why;
  });
}

// The memory lives as long as the thread.
template <class T = float>
std::span<T> ones(std::size_t count) {
  static thread_local std::deque<std::vector<T>> all;
  return all.emplace_back(count, T(1));
}

TEST(Arguments, NullPointers) {
  const Tensor nothing(nullptr, 10, DType::f32);
  expect_refused([&](World& w) { w.allreduce(nothing); }, "allreduce: the input is a null pointer with 10 elements");
  expect_refused([&](World& w) { w.allreduce(ones(10), nothing); }, "the output is a null pointer with 10 elements");
  expect_refused([&](World& w) { w.broadcast(nothing, 0); }, "broadcast: the tensor is a null pointer");
  expect_refused([&](World& w) { w.allgather(nothing, ones(20)); }, "allgather: the input is a null pointer");
  expect_refused([&](World& w) { w.reduce_scatter(nothing, ones(5)); }, "reduce_scatter: the input is a null");
}

TEST(Arguments, ReductionsThatATypeHasNot) {
  expect_refused([](World& w) { w.allreduce(ones(10), Op::bit_or); },
                 "allreduce: there is no bit_or of f32; the bitwise reductions are for integers");
  expect_refused(
      [](World& w) {
        bool flag = true;
        w.reduce(std::span(&flag, 1), 0, Op::average);
      },
      "reduce: there is no average of bool; take sum for any, product for all");
  expect_refused(
      [](World& w) {
        std::vector<f8_e4m3> bytes(3);
        w.allreduce(bytes);
      },
      "allreduce: there is no sum of f8_e4m3; convert them, for example to f16");
}

TEST(Arguments, AlgorithmsThatThereAreNot) {
  expect_refused([](World& w) { w.allreduce(ones(10), Op::sum, {.algorithm = "rong"}); },
                 "algorithm must be one of auto, ring");
  expect_refused([](World& w) { w.allreduce(ones(10), Op::sum, {.slab_bytes = -1}); },
                 "allreduce: slab_bytes must be 0 (the whole buffer at once) or positive, not -1");
}

TEST(Arguments, RootsAndWhatOnlyTheyHave) {
  expect_refused([](World& w) { w.reduce(ones(10), 2); }, "reduce: root 2 is not one of 2 ranks");
  expect_refused([](World& w) { w.gather(ones(10), ones(20), -1); }, "gather: root -1 is not one of 2 ranks");
  expect_refused([](World& w) { w.scatter(ones(20), ones(10), 2); }, "scatter: root 2 is not one of 2 ranks");
  expect_refused([](World& w) { w.reduce(ones(10), ones(11), w.rank()); },
                 "reduce: the input has 10 elements but the output 11");
  expect_refused([](World& w) { w.gather(ones(10), ones(19), w.rank()); },
                 "gather: the output has 19 elements, not 2 times the input's 10");
  expect_refused([](World& w) { w.scatter(ones(19), ones(10), w.rank()); },
                 "scatter: the input has 19 elements, not 2 times the output's 10");
}

TEST(Arguments, TypesThatCannotTravel) {
  expect_refused([](World& w) { w.allreduce(ones<int>(10), Op::sum, {.wire = DType::f16}); },
                 "allreduce: i32 cannot travel as f16; only f32 and f64 can, as f16 or bf16");
  expect_refused([](World& w) { w.allreduce(ones(10), Op::sum, {.wire = DType::f64}); }, "f32 cannot travel as f64");
  expect_refused([](World& w) { w.reduce_scatter(ones(20), ones(10), Op::sum, {.algorithm = "tree"}); },
                 "reduce_scatter: algorithm must be empty");
}

TEST(Arguments, CountsThatDoNotFit) {
  expect_refused([](World& w) { w.allreduce(ones(10), ones(11)); },
                 "allreduce: the input has 10 elements but the output 11");
  expect_refused([](World& w) { w.allgather(ones(10), ones(19)); },
                 "allgather: the output has 19 elements, not 2 times the input's 10");
  expect_refused([](World& w) { w.reduce_scatter(ones(19), ones(10)); },
                 "reduce_scatter: the input has 19 elements, not 2 times the output's 10");
}

TEST(Arguments, CountsOfPartsThatDoNotFit) {
  const std::vector<std::uint64_t> three = {1, 2, 3}, equal = {5, 5}, vast = {std::uint64_t(1) << 63, 5};
  expect_refused([&](World& w) { w.allgather(ones(5), ones(10), {.counts = three}); },
                 "allgather: there are 3 counts for 2 ranks");
  expect_refused([&](World& w) { w.allgather(ones(5), ones(11), {.counts = equal}); },
                 "allgather: the output has 11 elements, but the counts add up to 10");
  expect_refused([&](World& w) { w.allgather(ones(4), ones(10), {.counts = equal}); },
                 "allgather: the input has 4 elements, but the counts give rank ");
  expect_refused([&](World& w) { w.scatter(ones(10), ones(4), w.rank(), {.counts = equal}); },
                 "scatter: the output has 4 elements, but the counts give rank ");
  expect_refused([&](World& w) { w.gather(ones(5), ones(9), w.rank(), {.counts = equal}); },
                 "gather: the output has 9 elements, but the counts add up to 10");
  expect_refused([&](World& w) { w.reduce_scatter(ones(9), ones(5), Op::sum, {.counts = equal}); },
                 "reduce_scatter: the input has 9 elements, but the counts add up to 10");
  expect_refused([&](World& w) { w.allgather(ones(5), ones(10), {.counts = vast}); },
                 "allgather: the buffer of the counts has 9223372036854775808 elements, more than any memory holds");
  expect_refused([&](World& w) { w.allreduce(ones(5), Op::sum, {.counts = equal}); },
                 "allreduce: counts are for allgather, gather, scatter and reduce_scatter");
}

TEST(Arguments, WhatAllToAllCannotDivide) {
  const std::vector<std::uint64_t> equal = {5, 5}, other = {4, 6}, three = {1, 2, 3};
  expect_refused([](World& w) { w.alltoall(ones(3), ones(3)); },
                 "alltoall: the 3 elements cannot be divided among 2 ranks");
  expect_refused([](World& w) { w.alltoall(ones(4), ones(6)); }, "alltoall: the input has 4 elements but the output 6");
  expect_refused(
      [](World& w) {
        std::vector<float> both(4);
        w.alltoall(both, both);
      },
      "alltoall: there is no alltoall in place: give an output that shares no memory with the input");
  expect_refused([&](World& w) { w.alltoall(ones(10), ones(10), three, equal); },
                 "alltoall: there are 3 send counts for 2 ranks");
  expect_refused([&](World& w) { w.alltoall(ones(10), ones(9), equal, equal); },
                 "alltoall: the output has 9 elements, but the counts add up to 10");
  expect_refused([&](World& w) { w.alltoall(ones(10), ones(10), equal, other); },
                 "alltoall: this rank sends 5 elements to itself, but expects ");
}

TEST(Arguments, FactorsThatAreNone) {
  expect_refused([](World& w) { w.allreduce(ones<int>(3), Op::sum, {.prescale = 2}); },
                 "allreduce: a prescale is for floats, not for i32");
  expect_refused([](World& w) { w.reduce(ones(3), 0, Op::sum, {.postscale = 1 / 0.0}); },
                 "reduce: the postscale inf is not finite");
  expect_refused(
      [](World& w) {
        w.allreduce({ones(3), ones(2)}, {.prescale = -1e300});
      },
      "allreduce: the prescale -1e+300 is outside the range of f32, and f32 is multiplied in f32");
  run_world(2, [](World& world) {
    std::vector<double> large{0, 2}, more{1};
    world.allreduce({large, more}, {.prescale = 1e300});
    EXPECT_EQ(large, (std::vector<double>{0, 4e300}));
  });
}

// A product of counts that is a multiple of 2^64 must not be mistaken for zero.
TEST(Arguments, CountsBeyondMemory) {
  std::byte byte{};
  constexpr std::size_t kHalf = std::size_t(1) << 63;
  const Tensor vast(&byte, kHalf, DType::u8), none(&byte, 0, DType::u8);
  expect_refused([&](World& w) { w.allgather(vast, none); }, "9223372036854775808 elements");
  expect_refused([&](World& w) { w.reduce_scatter(none, vast); }, "9223372036854775808 elements");
  const Tensor wide(&byte, kHalf / 4, DType::f64);
  expect_refused([&](World& w) { w.allreduce(wide); }, "2305843009213693952 elements");
  expect_refused([&](World& w) { w.broadcast(wide, 0); }, "2305843009213693952 elements");
}

TEST(Arguments, DtypesThatDifferOrAreNone) {
  std::vector<double> doubles(10);
  expect_refused([&](World& w) { w.allreduce(ones(10), doubles); },
                 "allreduce: the input is f32 but the output is f64");
  std::vector<float> data(10);
  expect_refused([&](World& w) { w.allreduce(Tensor(data.data(), 10, DType(99))); }, "dtype 99 is not one of");
  expect_refused([&](World& w) { w.allreduce(Tensor(data.data(), 10, DType(0))); }, "dtype 0 is not one of");
  std::vector<float> other(10);
  expect_refused([&](World& w) { w.allreduce(other, Op(77)); }, "reduction 77 is not one of");
  const std::vector<Tensor> mixed = {data, doubles};
  expect_refused([&](World& w) { w.broadcast(mixed, 0); }, "broadcast: the list has both f32 and f64");
}

TEST(Arguments, RootsThatAreNoRank) {
  std::vector<float> data(10);
  expect_refused([&](World& w) { w.broadcast(data, 2); }, "broadcast: root 2 is not one of 2 ranks");
  expect_refused([&](World& w) { w.broadcast(data, -1); }, "broadcast: root -1 is not one of 2 ranks");
  expect_refused([](World& w) { (void)w.host(2); }, "rank 2 is not in this world of 2");
}

// Each rank has different memory.
TEST(Arguments, OverlapThatIsNotInPlace) {
  constexpr const char* kWhy = "input and output overlap, but are not the same memory";
  const auto part = [](std::vector<float>& v, std::size_t from, std::size_t count) {
    return std::span(v).subspan(from, count);
  };
  expect_refused(
      [&](World& w) {
        std::vector<float> v(100);
        w.allreduce(part(v, 0, 10), part(v, 9, 10));
      },
      kWhy);
  expect_refused(
      [&](World& w) {
        std::vector<float> v(100);
        w.allreduce(part(v, 1, 10), part(v, 0, 10));
      },
      kWhy);
  expect_refused(
      [&](World& w) {
        std::vector<float> v(100);
        w.allgather(part(v, 10 * std::size_t(1 - w.rank()), 10), part(v, 0, 20));
      },
      kWhy);
  expect_refused(
      [&](World& w) {
        std::vector<float> v(100);
        w.reduce_scatter(part(v, 0, 20), part(v, 10 * std::size_t(1 - w.rank()), 10));
      },
      kWhy);
}

// An empty tensor may point anywhere, even into the other tensor.
TEST(Arguments, WhatIsEmptySharesNoMemory) {
  run_world(2, [](World& w) {
    constexpr std::array<std::uint64_t, 2> kNone = {0, 0}, kAllOfRank0 = {20, 0}, kAllToRank1 = {0, 20};
    const bool first = w.rank() == 0;
    std::vector<float> v(20, first ? 1 : 2);
    const std::span all(v), empty = all.subspan(5, 0), part = first ? all : empty;
    w.allgather(part, all, {.counts = kAllOfRank0});
    EXPECT_THAT(v, Each(1));
    w.reduce_scatter(all, part, Op::sum, {.counts = kAllOfRank0});
    EXPECT_THAT(v, Each(first ? 2 : 1));
    if (first)
      w.alltoall(all, empty, kAllToRank1, kNone);
    else
      w.alltoall(empty, all, kNone, kAllOfRank0);
    EXPECT_THAT(v, Each(2));
  });
}

// Both tensors would be reduced into the memory that they share.
TEST(Arguments, TensorsOfAListThatShareMemory) {
  std::vector<float> v(100);
  const auto part = [&](std::size_t from, std::size_t count) { return Tensor(std::span(v).subspan(from, count)); };
  expect_refused(
      [&](World& w) {
        w.allreduce({part(0, 10), part(0, 10)});
      },
      "tensors 0 and 1 of the list share memory");
  expect_refused(
      [&](World& w) {
        w.allreduce({part(0, 10), part(20, 10), part(29, 10)});
      },
      "tensors 1 and 2 of the list");
  expect_refused(
      [&](World& w) {
        w.allreduce({part(50, 10), part(0, 10), part(59, 1), part(30, 0)});
      },
      "tensors 0 and 2 of the list");
  run_world(2, [](World& world) {
    std::vector<float> own(40, 1.F);
    const auto some = [&](std::size_t from, std::size_t count) { return Tensor(std::span(own).subspan(from, count)); };
    world.allreduce({some(30, 10), some(5, 0), some(0, 10), some(10, 20)});
    EXPECT_EQ(own, std::vector<float>(40, 2.F));
  });
}

TEST(Arguments, MemoryThatTouchesDoesNotOverlap) {
  run_world(2, [](World& world) {
    std::vector<float> v(40, 1.F);
    world.allreduce(std::span(v).first(10), std::span(v).subspan(10, 10));
    EXPECT_EQ(v[10], 2.F);
    EXPECT_EQ(v[0], 1.F);
    EXPECT_EQ(v[20], 1.F);
    world.allgather(std::span(v).first(10), std::span(v).subspan(10, 20));
    world.allreduce(Tensor(nullptr, 0, DType::f32));
  });
}

TEST(Arguments, OnlyTheRankThatIsWrongIsToldAndTheOthersWaitForIt) {
  run_world(3, [](World& world) {
    std::vector<float> data(10, 1.F);
    if (world.rank() == 1) {
      EXPECT_THROW(world.broadcast(data, 7), Error);
    }
    world.allreduce(data);
    EXPECT_EQ(data[9], 3.F);
  });
}

TEST(Arguments, AWorldNeedsARank) {
  EXPECT_THROW(run_world(0, [](World&) {}), Error);
  EXPECT_THROW(run_world(-1, [](World&) {}), Error);
}

}  // namespace
}  // namespace anello::group
