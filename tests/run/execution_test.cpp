// Execution alone: the test acts as the links, a few bytes at a time.
#include "ring/run/execution.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/plan/plan_builder.hpp"
#include "tests/run/by_hand.hpp"
#include "tests/support/random.hpp"

namespace anello::run {
namespace {

// A star of two ranks. At its centre, stream 0 sends the result, and stream 1 receives and reduces. At the leaf, stream
// 0 sends the input, and stream 1 copies the result.
plan::Plan star(int rank, std::uint64_t count) {
  return algorithms::plan_allreduce(Algorithm::star, {.rank = rank, .world = 2, .count = count});
}

class InShreds : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, InShreds, testing::Values(1, 3, 5, 1000));

TEST_P(InShreds, ReducesOutOfPlaceAndSendsTheResult) {
  const plan::Plan plan = star(0, 9);
  Words mine = numbers(9, 100), out(9), theirs = numbers(9, 7);
  const Words before = mine;
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(out));
  EXPECT_EQ(feed(execution, 1, raw(theirs), GetParam()), 36);
  EXPECT_EQ(words_of(drain(execution, 0, GetParam())), combined(before, theirs));
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out, combined(before, theirs));
  EXPECT_EQ(mine, before) << "the input was written";
}

TEST_P(InShreds, ReducesInPlace) {
  const plan::Plan plan = star(0, 9);
  Words mine = numbers(9, 100), theirs = numbers(9, 7);
  const Words expected = combined(mine, theirs);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(mine));
  feed(execution, 1, raw(theirs), GetParam());
  drain(execution, 0, GetParam());
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(mine, expected);
}

TEST_P(InShreds, SendsTheInputAndCopiesTheResult) {
  const plan::Plan plan = star(1, 9);
  Words mine = numbers(9, 100), out(9), result = numbers(9, 7);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(out));
  EXPECT_EQ(words_of(drain(execution, 0, GetParam())), mine);
  EXPECT_FALSE(execution.done());
  feed(execution, 1, raw(result), GetParam());
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out, result);
}

// Input and output are lists whose pieces end at different places.
TEST_P(InShreds, PiecesOfReduceAndSend) {
  const plan::Plan plan = star(0, 10);
  Pieces in({3, 1, 2, 4}, 50), out({1, 5, 3, 1}, 0);
  const Words theirs = numbers(10, 7), expected = combined(in.values(), theirs);
  Execution execution;
  execution.start(plan, kLopsided, in.buffer(), out.buffer());
  feed(execution, 1, raw(theirs), GetParam());
  EXPECT_EQ(words_of(drain(execution, 0, GetParam())), expected);
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out.values(), expected);
}

TEST_P(InShreds, PiecesOfCopy) {
  const plan::Plan plan = algorithms::plan_broadcast({.rank = 1, .world = 2, .count = 10});
  Pieces out({1, 5, 3, 1}, 0);
  const Words data = numbers(10, 7);
  Execution execution;
  execution.start(plan, kLopsided, out.buffer(), out.buffer());
  feed(execution, 0, raw(data), GetParam());
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out.values(), data);
}

TEST_P(InShreds, SendsPiecesAndCopiesThemToItsOwnOutput) {
  const plan::Plan plan = algorithms::plan_broadcast({.rank = 0, .world = 2, .count = 10});
  Pieces in({2, 2, 6}, 40), out({1, 5, 3, 1}, 0);
  Execution execution;
  execution.start(plan, kLopsided, in.buffer(), out.buffer());
  EXPECT_EQ(words_of(drain(execution, 0, GetParam())), in.values());
  EXPECT_TRUE(execution.compute());
  EXPECT_FALSE(execution.compute());
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out.values(), in.values());
}

TEST(Execution, TheLowerRankIsTheLeftOperand) {
  for (const int rank : {0, 1}) {
    Words mine = {10}, theirs = {20}, out(1);
    const plan::Plan plan = algorithms::plan_allreduce(Algorithm::one_shot, {.rank = rank, .world = 2, .count = 1});
    Execution execution;
    execution.start(plan, kLopsided, whole(mine), whole(out));
    EXPECT_EQ(feed(execution, 1, raw(theirs), 4), 0) << "in place this would overwrite what is still to be sent";
    drain(execution, 0, 4);
    EXPECT_EQ(feed(execution, 1, raw(theirs), 4), 4);
    EXPECT_EQ(out[0], rank == 0 ? lopsided(10, 20) : lopsided(20, 10));
  }
}

TEST(Execution, HalfAnElementCannotBeSentOn) {
  const plan::Plan plan = star(0, 4);
  Words mine = numbers(4, 100), theirs = numbers(4, 7);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(mine));
  std::array<ConstBytes, 4> pieces;
  EXPECT_EQ(execution.sendable(0, pieces), 0);
  feed(execution, 1, raw(theirs).first(7), 7);
  ASSERT_EQ(execution.sendable(0, pieces), 1);
  EXPECT_EQ(pieces[0].size(), 4);
  feed(execution, 1, raw(theirs).subspan(7, 1), 1);
  ASSERT_EQ(execution.sendable(0, pieces), 1);
  EXPECT_EQ(pieces[0].size(), 8);
}

TEST(Execution, FillsNoMorePiecesThanThereIsRoomFor) {
  const plan::Plan plan = algorithms::plan_broadcast({.rank = 0, .world = 2, .count = 1000});
  Pieces in({200, 200, 600}, 40);
  Execution execution;
  execution.start(plan, kLopsided, in.buffer(), in.buffer());
  std::array<ConstBytes, 2> pieces;
  ASSERT_EQ(execution.sendable(0, pieces), 2);
  EXPECT_EQ(pieces[0].size() + pieces[1].size(), 1600);
}

// The ring of two ranks in slabs: stream 0 has many steps, and a send may span several of them.
TEST(Execution, OneSendMaySpanSteps) {
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::one_shot, {.rank = 0, .world = 2, .count = 10}, 3);
  ASSERT_EQ(plan.streams[0].end - plan.streams[0].first, 4);
  Words mine = numbers(10, 100), out(10);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(out));
  std::array<ConstBytes, 8> pieces;
  ASSERT_EQ(execution.sendable(0, pieces), 4);
  execution.sent(0, 4 * 7 + 2);
  EXPECT_EQ(execution.current(0).order, plan.steps[2].order);
  ASSERT_EQ(execution.sendable(0, pieces), 2);
  EXPECT_EQ(pieces[0].data(), bytes_of(mine) + 30);
  EXPECT_EQ(pieces[0].size(), 6);
  execution.sent(0, 10);
  EXPECT_TRUE(execution.ended(0));
}

// Rank 1's input of both slabs has to be in the scratch before it is folded. The halves of the scratch are used again,
// so the third slab waits for the fold of the first one.
TEST(Execution, WhatComesWaitsUntilTheScratchIsFree) {
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::one_shot, {.rank = 0, .world = 3, .count = 6}, 2);
  Words mine = numbers(6, 100), out(6);
  const Words first = numbers(6, 7), second = numbers(6, 70);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(out));
  const auto stream = [&](plan::Stream::Kind kind, int peer) {
    for (std::uint32_t s = 0; s < plan.streams.size(); s++)
      if (plan.streams[s].kind == kind && plan.streams[s].peer == peer) return s;
    return 0U;
  };
  drain(execution, 0, 100);
  drain(execution, 1, 100);
  const std::uint32_t from_1 = stream(plan::Stream::Kind::receive, 1), from_2 = stream(plan::Stream::Kind::receive, 2);
  EXPECT_EQ(feed(execution, from_1, raw(first), 100), 16) << "two slabs of two";
  EXPECT_FALSE(execution.compute()) << "a source is missing";
  EXPECT_EQ(feed(execution, from_2, raw(second).first(8), 8), 8);
  EXPECT_TRUE(execution.compute());
  EXPECT_EQ(feed(execution, from_1, raw(first).subspan(16), 100), 8);
  EXPECT_EQ(feed(execution, from_2, raw(second).subspan(8), 100), 16);
  EXPECT_TRUE(execution.compute());
  EXPECT_EQ(out, combined(combined(mine, first), second)) << "in rank order";
  EXPECT_TRUE(execution.done());
}

TEST(Execution, MoreThanTheReceiveBufferHolds) {
  const std::size_t count = Execution::kReceiveBytes / 4 + 1001;
  const plan::Plan plan = star(0, count);
  Words mine = numbers(count, 100), theirs = numbers(count, 7), out(count);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(out));
  feed(execution, 1, raw(theirs).first(3), 3);
  const Bytes place = receivable(execution, 1);
  EXPECT_LE(place.size(), Execution::kReceiveBytes);
  EXPECT_GE(place.size(), Execution::kReceiveBytes / 2);
  feed(execution, 1, raw(theirs).subspan(3), SIZE_MAX);
  EXPECT_EQ(out, combined(mine, theirs));
  EXPECT_EQ(words_of(drain(execution, 0, 100001)), out);
  EXPECT_TRUE(execution.done());
}

// The fold has many blocks, and its sources consist of pieces.
TEST(Execution, FoldsMoreThanABlock) {
  const std::size_t count = Execution::kBlockBytes / 4 * 3 + 5;
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::one_shot, {.rank = 1, .world = 3, .count = count});
  Pieces in({1000, count - 1000}, 100);
  Words out(count);
  const Words from_0 = numbers(count, 7), from_2 = numbers(count, 70);
  Execution execution;
  execution.start(plan, kLopsided, in.buffer(), whole(out));
  for (std::uint32_t s = 0; s < plan.streams.size(); s++) {
    if (plan.streams[s].kind == plan::Stream::Kind::send) drain(execution, s, 5000);
    if (plan.streams[s].kind == plan::Stream::Kind::receive)
      feed(execution, s, raw(plan.streams[s].peer == 0 ? from_0 : from_2), 5001);
  }
  EXPECT_TRUE(execution.compute());
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out, combined(combined(from_0, in.values()), from_2));
}

// 256 + 1 is 256 in bf16, so it shows whether the sum is rounded between two additions.
TEST(Execution, AFoldOfHalvesIsRoundedOnce) {
  const std::size_t count = Execution::kBlockBytes + 5;
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::one_shot, {.rank = 0, .world = 3, .count = count});
  std::vector<bf16> mine(count, bf16(256.F)), one(count, bf16(1.F));
  const Buffer buffer(reinterpret_cast<std::byte*>(mine.data()), count);
  Execution execution;
  execution.start(plan, arithmetic(DType::bf16, Op::sum), buffer, buffer);
  for (std::uint32_t s = 0; s < plan.streams.size(); s++) {
    if (plan.streams[s].kind == plan::Stream::Kind::send) drain(execution, s, 5000);
    if (plan.streams[s].kind == plan::Stream::Kind::receive) feed(execution, s, std::as_bytes(std::span(one)), 5001);
  }
  EXPECT_TRUE(execution.compute());
  for (const bf16 sum : mine) ASSERT_EQ(float(sum), 258.F);
}

TEST(Execution, IsUsedAgainForLargerAndSmallerPlans) {
  Execution execution;
  for (const std::uint64_t count : {3, 30, 1, 300}) {
    const plan::Plan plan = algorithms::plan_allreduce(Algorithm::one_shot, {.rank = 0, .world = 3, .count = count});
    Words mine = numbers(count, 100), out(count);
    const Words theirs = numbers(count, 7);
    execution.start(plan, kLopsided, whole(mine), whole(out));
    for (std::uint32_t s = 0; s < plan.streams.size(); s++) {
      if (plan.streams[s].kind == plan::Stream::Kind::send) drain(execution, s, 100);
      if (plan.streams[s].kind == plan::Stream::Kind::receive) feed(execution, s, raw(theirs), 100);
    }
    execution.compute();
    EXPECT_TRUE(execution.done());
    EXPECT_EQ(out, combined(combined(mine, theirs), theirs));
  }
}

// If an Execution is started again in the middle of an operation, nothing of that operation may remain.
TEST(Execution, StartsAnewAfterHalfAnOperation) {
  const plan::Plan plan = star(0, 4);
  Words mine = numbers(4, 100), out(4);
  const Words theirs = numbers(4, 7);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(out));
  feed(execution, 1, raw(theirs).first(6), 3);
  execution.start(plan, kLopsided, whole(mine), whole(out));
  feed(execution, 1, raw(theirs), 3);
  EXPECT_EQ(out, combined(mine, theirs));
}

TEST(Execution, NothingToDoIsDoneAtOnce) {
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::ring, {.rank = 0, .world = 1, .count = 0});
  Execution execution;
  execution.start(plan, kLopsided, {}, {});
  EXPECT_TRUE(execution.done());
  EXPECT_FALSE(execution.compute());
}

TEST(Execution, AWorldOfOneCopies) {
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::ring, {.rank = 0, .world = 1, .count = 9});
  Pieces in({4, 5}, 10), out({7, 2}, 0);
  Execution execution;
  execution.start(plan, kLopsided, in.buffer(), out.buffer());
  EXPECT_TRUE(execution.compute());
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out.values(), in.values());
}

TEST(Execution, ALargeCopyLetsTheLinksBeServedInBetween) {
  constexpr std::size_t kParts = 4, kCount = kParts * Execution::kLocalBytes / 4;
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::ring, {.rank = 0, .world = 1, .count = kCount});
  Words in = numbers(kCount, 10), out(kCount);
  Execution execution;
  execution.start(plan, kLopsided, whole(in), whole(out));
  for (std::size_t k = 0; k < kParts; k++) {
    EXPECT_FALSE(execution.done()) << k;
    EXPECT_TRUE(execution.compute()) << k;
  }
  EXPECT_TRUE(execution.done());
  EXPECT_EQ(out, in);
}

TEST(Execution, WithoutMemoryDoesNotStart) {
  if (kSlowdown > 1) return;  // a sanitizer ends the process
  plan::Plan plan = star(0, 4);
  plan.scratch_elems = std::uint64_t(1) << 58;
  Words mine = numbers(4, 100);
  Execution execution;
  EXPECT_THROW(execution.start(plan, kLopsided, whole(mine), whole(mine)), std::bad_alloc);
}

TEST(Execution, ReportsHowFarItIs) {
  using Driver = std::pair<std::uint64_t, std::uint64_t>;
  const plan::Plan plan = star(0, 8);
  Words mine = numbers(8, 100);
  const Words theirs = numbers(8, 7);
  Execution execution;
  execution.start(plan, kLopsided, whole(mine), whole(mine));
  EXPECT_EQ(execution.progress(), (Driver{0, 16}));
  feed(execution, 1, raw(theirs).first(14), 100);
  EXPECT_EQ(execution.progress(), (Driver{3, 16}));
  feed(execution, 1, raw(theirs).subspan(14), 100);
  EXPECT_EQ(execution.progress(), (Driver{8, 16}));
  drain(execution, 0, 100);
  EXPECT_EQ(execution.progress(), (Driver{16, 16}));
}

// The elements have 1, 2 and 8 bytes, and arrive byte by byte.
template <class T>
void reduce_byte_by_byte() {
  constexpr std::uint64_t kCount = 5;
  const plan::Plan plan = star(0, kCount);
  std::vector<T> mine = {1, 2, 3, 4, 5}, theirs = {10, 20, 30, 40, 50}, out(kCount);
  const auto buffer = [](std::vector<T>& v) { return Buffer(reinterpret_cast<std::byte*>(v.data()), v.size()); };
  Execution execution;
  execution.start(plan, arithmetic(dtype_of<T>(), Op::sum), buffer(mine), buffer(out));
  feed(execution, 1, std::as_bytes(std::span(theirs)), 1);
  EXPECT_EQ(out, (std::vector<T>{11, 22, 33, 44, 55})) << name(dtype_of<T>());
  EXPECT_EQ(drain(execution, 0, 1).size(), kCount * sizeof(T));
  EXPECT_TRUE(execution.done());
}

TEST(Execution, EverySizeOfElementByteByByte) {
  reduce_byte_by_byte<std::uint8_t>();
  reduce_byte_by_byte<std::int16_t>();
  reduce_byte_by_byte<float>();
  reduce_byte_by_byte<double>();
}

}  // namespace
}  // namespace anello::run
