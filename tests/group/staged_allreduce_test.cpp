// Allreduces through stages, over real windows: the ranks take turns in every order.
#include "ring/group/staged_allreduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "tests/group/windows.hpp"
#include "tests/support/random.hpp"

namespace anello::group {
namespace {

using Ints = std::vector<std::int32_t>;

constexpr std::size_t kSlab = 1024, kSlabInts = kSlab / sizeof(std::int32_t);
constexpr std::int32_t kOverwritten = 1 << 20;

struct Reduction {
  std::size_t count = 100;
  bool in_place = true, average = false, is_list = false;
  std::set<int> without_stage = {};  // ranks that post that they show nothing
  std::set<int> with_tensors = {};   // ranks that post that they show tensors
};

// One rank, and its tensors of the current operation.
struct StagedRank : PostingRank {
  StagedRank(int rank, int size)
      : PostingRank(rank, size), staged(std::make_unique<StagedAllreduce>(rank, size, posts)) {}

  std::unique_ptr<StagedAllreduce> staged;
  Ints input, output;
  Ints* result = nullptr;
  run::Buffer from, to;
  std::vector<run::Buffer::Piece> pieces_from, pieces_to;
  Signature signature;
  plan::Plan plan;
  run::Load load;
  bool begun = false;
};

class StagedRanks : public RanksInTurn<StagedRank> {
 public:
  explicit StagedRanks(int size) : RanksInTurn(size), average_(run::scaling(DType::i32, size, 1)) {}

  void start(const Reduction& reduction) {
    reduction_ = reduction;
    number_++;
    for (int rank = 0; rank < size(); rank++) start((*this)[rank], rank);
  }

  bool turn(int rank) override {
    StagedRank& me = (*this)[rank];
    if (me.complete || (me.begun && me.staged->refused())) return false;
    if (!std::exchange(me.begun, true)) return begin(me, rank), true;
    const bool moved = !shows_other_memory(rank) && me.staged->pass();
    if (moved && me.staged->done()) complete(rank);
    return moved;
  }

 private:
  bool shows_other_memory(int rank) const {
    return reduction_.without_stage.contains(rank) || reduction_.with_tensors.contains(rank);
  }
  std::int32_t value(int rank, std::size_t i) const { return std::int32_t(number_ * 7 + i * 3) + 1000 * rank; }
  std::int32_t expected(std::size_t i) const {
    std::int32_t sum = 0;
    for (int rank = 0; rank < size(); rank++) sum += value(rank, i);
    return reduction_.average ? sum / size() : sum;
  }

  void start(StagedRank& me, int rank) {
    me.input.resize(reduction_.count);
    me.output.assign(reduction_.count, -1);
    for (std::size_t i = 0; i < reduction_.count; i++) me.input[i] = value(rank, i);
    me.result = reduction_.in_place ? &me.input : &me.output;
    const auto buffer = [](Ints& ints) { return run::Buffer(reinterpret_cast<std::byte*>(ints.data()), ints.size()); };
    me.from = reduction_.is_list ? list(me.input, me.pieces_from) : buffer(me.input);
    me.to = reduction_.is_list ? list(*me.result, me.pieces_to) : buffer(*me.result);
    me.signature = {.sequence = number_, .count = reduction_.count};
    me.plan.output_elems = reduction_.count;
    me.load = {.plan = &me.plan, .arithmetic = &arithmetic_, .input = &me.from, .output = &me.to};
    me.load.signature = &me.signature;
    if (reduction_.average) me.load.result_scaling = average_;
    me.begun = me.complete = false;
    ASSERT_TRUE(me.staged->prepare(me.load, kSlab));
  }
  // Divides the integers into tensors of several sizes, some of them empty.
  static run::Buffer list(Ints& ints, std::vector<run::Buffer::Piece>& pieces) {
    pieces.clear();
    for (std::size_t at = 0; at < ints.size();) {
      const std::size_t count = std::min(ints.size() - at, pieces.size() * 37 % 150);
      pieces.push_back({at + count, reinterpret_cast<std::byte*>(ints.data() + at), count});
      at += count;
    }
    return run::Buffer(pieces);
  }
  void begin(StagedRank& me, int rank) {
    if (reduction_.without_stage.contains(rank)) {
      me.posts.post(me.signature, shm::Shown::nothing);
    } else if (reduction_.with_tensors.contains(rank)) {
      const auto place = shm::lend(std::as_bytes(std::span(tensor_)))->place;
      me.posts.post(me.signature, shm::Shown::tensors, {place, place});
    } else {
      me.staged->begin(me.load);
    }
  }
  // Acts as the rank's program: checks the result, and then overwrites the tensors.
  void complete(int rank) {
    StagedRank& me = (*this)[rank];
    me.complete = true;
    for (std::size_t i = 0; i < reduction_.count; i++)
      ASSERT_EQ((*me.result)[i], expected(i)) << "rank " << rank << ", element " << i << " of " << reduction_.count;
    std::ranges::fill(me.input, kOverwritten);
    std::ranges::fill(me.output, kOverwritten);
  }

  const run::Arithmetic arithmetic_ = run::arithmetic(DType::i32, Op::sum);
  const run::Scaling average_;
  std::vector<std::int32_t, Allocator<std::int32_t>> tensor_ = std::vector<std::int32_t, Allocator<std::int32_t>>(8);
  Reduction reduction_;
  std::uint64_t number_ = 0;
};

// The ranks take the first turns in every order. Operations of other sizes went before, so both slots of a stage are
// used again while a slow rank may still read them.
TEST(StagedAllreduce, IsRightInEveryOrderOfTurns) {
  for (const auto& [size, turns] : {std::pair{2, 9}, {3, 7}}) {
    StagedRanks ranks(size);
    std::vector<int> order;
    std::size_t n = 0;
    each_order(size, turns, order, [&] {
      const std::size_t counts[] = {50, kSlabInts, 2 * kSlabInts + 17, 5 * kSlabInts};
      ranks.start({.count = counts[n++ % 4], .in_place = n % 3 != 0});
      ranks.run(order);
      ASSERT_TRUE(ranks.all_complete());
    });
  }
}

TEST(StagedAllreduce, IsRightInChunksAndSlabs) {
  for (const int size : {2, 3, 5, 8}) {
    StagedRanks ranks(size);
    Random random{std::uint64_t(size)};
    for (const std::size_t count : {1U, 15U, 17U, 255U, 256U, 257U, 1000U, 2048U, 10'001U})
      for (int time = 0; time < 20; time++) {
        ranks.start({.count = count, .in_place = time % 2 == 0, .average = time % 3 == 0, .is_list = time % 5 < 2});
        std::vector<int> order(100);
        // Some ranks are rarely given a turn.
        for (int& rank : order) rank = int(random.below(1 + random.below(std::uint64_t(size))));
        ranks.run(order);
        ASSERT_TRUE(ranks.all_complete());
      }
  }
}

// One rank shows no stage, or shows tensors instead, in every order of turns. The tensors remain unchanged, and the
// next operation is carried out.
TEST(StagedAllreduce, IsRefusedByAllIfOneShowsSomethingElse) {
  StagedRanks ranks(3);
  std::vector<int> order;
  std::size_t n = 0;
  each_order(3, 5, order, [&] {
    const bool tensors = n++ % 2 == 0;
    Reduction reduction{.count = 2 * kSlabInts};
    (tensors ? reduction.with_tensors : reduction.without_stage) = {order[0]};
    ranks.start(reduction);
    ranks.run(order);
    for (int rank = 0; rank < 3; rank++) {
      ASSERT_FALSE(ranks[rank].complete);
      ASSERT_TRUE(rank == order[0] || ranks[rank].staged->refused());
      ASSERT_TRUE(std::ranges::count(ranks[rank].input, kOverwritten) == 0);
    }
    ranks.start({.count = 3 * kSlabInts});
    ranks.run(order);
    ASSERT_TRUE(ranks.all_complete());
  });
}

TEST(StagedAllreduce, FindsThatTheOtherRankCallsSomethingElse) {
  StagedRanks ranks(2);
  ranks.start({.count = 100});
  ranks[1].signature.count = 101;
  ranks.turn(0);
  ranks.turn(1);
  EXPECT_THROW(ranks.turn(0), Error);
  EXPECT_EQ(ranks[0].told_of, 1);
}

TEST(StagedAllreduce, WaitsForThoseThatAreLateAndIsWokenByThem) {
  StagedRanks ranks(3);
  ranks.start({.count = 2 * kSlabInts});
  const auto rest = [&](int rank) {
    while (ranks.turn(rank)) continue;
    return ranks[rank].staged->awaited();
  };
  rest(0);
  EXPECT_EQ(rest(2), (std::vector{1})) << "it has not posted";
  EXPECT_EQ(rest(0), (std::vector{1}));
  EXPECT_TRUE(ranks[0].staged->may_sleep());
  ranks.turn(1);
  EXPECT_FALSE(ranks[0].staged->may_sleep());
  EXPECT_EQ(rest(0), (std::vector{1, 2})) << "it needs their parts of the result";
  EXPECT_TRUE(ranks[0].staged->may_sleep());
  EXPECT_EQ(rest(2), (std::vector{1}));
  EXPECT_FALSE(ranks[0].staged->may_sleep());
  ranks.run();
  EXPECT_TRUE(ranks.all_complete());
}

TEST(StagedAllreduce, CountsWhatMoves) {
  StagedRanks ranks(4);
  ranks.start({.count = 3 * kSlabInts});
  ranks.run();
  const StagedAllreduce::Moved moved = ranks[1].staged->moved();
  EXPECT_EQ(moved.sent_bytes, 3 * kSlab * 6 / 4);  // 3/4 of the input, and 1/4 of the result to three ranks
  EXPECT_EQ(moved.received_bytes, moved.sent_bytes);
  const auto [done, all] = ranks[1].staged->progress();
  EXPECT_EQ(done, 3 * kSlab);
  EXPECT_EQ(all, 3 * kSlab);
}

// A rank that has its result may end its group while a slower rank still reads this rank's part of the result.
TEST(StagedAllreduce, AStageOutlivesItsRank) {
  StagedRanks ranks(3);
  ranks.start({.count = kSlabInts});
  for (const int rank : {0, 1, 2, 0, 1, 2}) ranks.turn(rank);  // they post, and meet
  for (const int rank : {2, 0, 1, 0}) ranks.turn(rank);        // rank 2 makes its part before the others
  ASSERT_TRUE(ranks[0].complete);
  ASSERT_FALSE(ranks[2].complete);
  ranks[0].staged.reset();
  for (const int rank : {1, 2})
    while (ranks.turn(rank)) continue;
  EXPECT_TRUE(ranks.all_complete());
}

}  // namespace
}  // namespace anello::group
