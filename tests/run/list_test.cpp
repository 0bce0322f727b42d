// Execution of lists of tensors: tiny tensors are packed, and larger tensors are not.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/run/execution.hpp"
#include "tests/run/by_hand.hpp"

namespace anello::run {
namespace {

class ListsInShreds : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, ListsInShreds, testing::Values(1, 3, 5, 1000));

// Tensors of 4 to 508 bytes are packed, and larger tensors are not; 129 words are 4 bytes above this limit.
const std::vector<std::size_t> kMixed = {1, 100, 127, 129, 3000, 2, 5, 700, 1, 1, 900, 129, 60};

TEST_P(ListsInShreds, AListOfSmallAndLargeTensorsIsSentAndCopied) {
  const std::uint64_t count = std::accumulate(kMixed.begin(), kMixed.end(), std::uint64_t(0));
  Pieces in(kMixed, 40), out(kMixed, 0);
  for (const int rank : {0, 1}) {
    const plan::Plan plan = algorithms::plan_broadcast({.rank = rank, .world = 2, .count = count});
    Pieces& list = rank == 0 ? in : out;
    Execution execution;
    execution.start(plan, kLopsided, list.buffer(), list.buffer());
    if (rank == 0) {
      EXPECT_EQ(words_of(drain(execution, 0, GetParam())), in.values());
      Execution again;
      again.start(plan, kLopsided, list.buffer(), list.buffer());
      EXPECT_EQ(words_of(drain(again, 0, GetParam(), true)), in.values()) << "packed where it goes";
    } else
      feed(execution, 0, raw(in.values()), GetParam());
    while (execution.compute()) {
    }
    EXPECT_TRUE(execution.done());
  }
  EXPECT_EQ(out.values(), in.values());
}

TEST_P(ListsInShreds, AListOfSmallAndLargeTensorsIsReduced) {
  const std::uint64_t count = std::accumulate(kMixed.begin(), kMixed.end(), std::uint64_t(0));
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::ring, {.rank = 0, .world = 2, .count = count}, 500);
  Pieces mine(kMixed, 40);
  const Words before = mine.values(), theirs = numbers(count, 7), expected = combined(before, theirs);
  Execution execution;
  execution.start(plan, kLopsided, mine.buffer(), mine.buffer());
  // Rank 0 sends the first half of each slab and keeps the second half; then it sends the second half and keeps the
  // first.
  Words sends, receives;
  for (std::uint64_t slab = 0; slab < count; slab += 500) {
    const std::uint64_t end = std::min(slab + 500, count), half = slab + (end - slab + 1) / 2;
    sends.insert(sends.end(), before.begin() + std::ptrdiff_t(slab), before.begin() + std::ptrdiff_t(half));
    sends.insert(sends.end(), expected.begin() + std::ptrdiff_t(half), expected.begin() + std::ptrdiff_t(end));
    receives.insert(receives.end(), theirs.begin() + std::ptrdiff_t(half), theirs.begin() + std::ptrdiff_t(end));
    receives.insert(receives.end(), expected.begin() + std::ptrdiff_t(slab), expected.begin() + std::ptrdiff_t(half));
  }
  Words sent;
  for (std::size_t taken = 0; !execution.done();) {
    const Words some = words_of(drain(execution, 0, GetParam()));
    sent.insert(sent.end(), some.begin(), some.end());
    const std::size_t now = feed(execution, 1, raw(receives).subspan(taken), GetParam());
    taken += now;
    ASSERT_TRUE(now > 0 || !some.empty()) << "stuck";
  }
  EXPECT_EQ(sent, sends);
  EXPECT_EQ(mine.values(), expected);
}

TEST(Lists, NoPiecesAreListedBehindWhatALinkTakes) {
  Pieces list(std::vector<std::size_t>(20, 200), 40);
  const plan::Plan root = algorithms::plan_broadcast({.rank = 0, .world = 2, .count = 20 * 200});
  Execution execution;
  execution.start(root, kLopsided, list.buffer(), list.buffer());
  std::array<ConstBytes, 30> pieces;
  EXPECT_EQ(execution.sendable(0, pieces, 4), 1);
  EXPECT_EQ(execution.sendable(0, pieces, 800), 1);
  EXPECT_EQ(execution.sendable(0, pieces, 804), 2);
  EXPECT_EQ(execution.sendable(0, pieces), 20);
}

TEST(Lists, PacksManySmallTensorsIntoOnePiece) {
  constexpr std::size_t kCount = 5000;
  Pieces list(std::vector<std::size_t>(kCount, 2), 40);
  const plan::Plan root = algorithms::plan_broadcast({.rank = 0, .world = 2, .count = 2 * kCount});
  const plan::Plan leaf = algorithms::plan_broadcast({.rank = 1, .world = 2, .count = 2 * kCount});
  Execution execution;
  execution.start(root, kLopsided, list.buffer(), list.buffer());
  std::array<ConstBytes, 2> pieces;
  ASSERT_EQ(execution.sendable(0, pieces), 1);
  EXPECT_EQ(pieces[0].size(), 8 * kCount);
  execution.start(leaf, kLopsided, list.buffer(), list.buffer());
  EXPECT_GE(receivable(execution, 0).size(), 4000);
}

TEST(Lists, LargeTensorsOfAListGoFromAndToWhereTheyLie) {
  Pieces list({200, 1, 2, 300, 400}, 40);
  const auto memory = [&](std::size_t k) { return list.list[k].data; };
  const plan::Plan root = algorithms::plan_broadcast({.rank = 0, .world = 2, .count = 903});
  const plan::Plan leaf = algorithms::plan_broadcast({.rank = 1, .world = 2, .count = 903});
  Execution execution;
  execution.start(root, kLopsided, list.buffer(), list.buffer());
  std::array<ConstBytes, 8> pieces;
  ASSERT_EQ(execution.sendable(0, pieces), 2) << "the first, and the two small ones";
  EXPECT_EQ(pieces[0].data(), memory(0));
  execution.sent(0, 800 + 12);
  ASSERT_EQ(execution.sendable(0, pieces), 2);
  EXPECT_EQ(pieces[0].data(), memory(3));
  EXPECT_EQ(pieces[1].data(), memory(4));
  execution.start(leaf, kLopsided, list.buffer(), list.buffer());
  feed(execution, 0, raw(numbers(203, 0)), 1000);
  std::array<Bytes, 8> places;
  ASSERT_EQ(execution.receivable(0, places), 2);
  EXPECT_EQ(places[0].data(), memory(3));
  EXPECT_EQ(places[1].data(), memory(4));
}

TEST(Lists, LargeTensorsAreReceivedInOneCall) {
  Pieces list({200, 300, 400}, 40);
  const plan::Plan leaf = algorithms::plan_broadcast({.rank = 1, .world = 2, .count = 900});
  Execution execution;
  execution.start(leaf, kLopsided, list.buffer(), list.buffer());
  std::array<Bytes, 8> places;
  ASSERT_EQ(execution.receivable(0, places), 3);
  for (std::size_t k = 0; k < 3; k++) EXPECT_EQ(places[k].data(), list.list[k].data);
}

// Narrowed elements of several tensors form one run.
TEST(Lists, NarrowsAcrossTensors) {
  std::vector<float> values(2000, 1.5F);
  std::vector<Buffer::Piece> pieces;
  for (std::uint64_t end = 250; end <= 2000; end += 250)
    pieces.push_back({end, reinterpret_cast<std::byte*>(&values[end - 250]), 250});
  const plan::Plan plan = algorithms::plan_allreduce(Algorithm::star, {.rank = 1, .world = 2, .count = 2000});
  Execution execution;
  execution.start(plan, arithmetic(DType::f32, Op::sum, DType::bf16), Buffer(pieces), Buffer(pieces));
  std::array<ConstBytes, 8> out;
  ASSERT_EQ(execution.sendable(0, out), 1);
  EXPECT_EQ(out[0].size(), 4000);
}

}  // namespace
}  // namespace anello::run
