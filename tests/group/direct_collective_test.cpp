// Collectives directly on the tensors, over real windows: the ranks take turns in every order.
#include "ring/group/direct_collective.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "ring/plan/parts.hpp"
#include "tests/group/windows.hpp"
#include "tests/support/random.hpp"
#include "tests/support/uneven.hpp"

namespace anello::group {
namespace {

using MappedInts = std::vector<std::int32_t, Allocator<std::int32_t>>;

constexpr std::int32_t kScribble = 1 << 20;

// One rank, and its tensors of the current operation.
struct Rank : PostingRank {
  Rank(int rank, int size) : PostingRank(rank, size), direct(rank, size, posts) {}

  DirectCollective direct;
  MappedInts input, output;
  std::vector<std::int32_t> elsewhere;  // in place of both
  std::int32_t* result = nullptr;
  bool posted = false;
};

constexpr std::array kKinds{Kind::allreduce, Kind::broadcast, Kind::reduce, Kind::allgather, Kind::reduce_scatter};

struct Layout {
  Kind kind = Kind::allreduce;
  std::size_t count = 100;  // elements of the tensor; of one part, if the kind has parts
  bool in_place = true;
  std::set<int> elsewhere = {};  // ranks whose tensors cannot be mapped
  bool average = false;
  int root = 0;
  std::vector<std::uint64_t> counts = {};  // of unequal parts

  bool has_parts() const { return facts_of(kind).parts; }
  bool reduces() const { return kind != Kind::broadcast && kind != Kind::allgather; }
  plan::Parts parts(int size) const { return {size, count, counts}; }
};

class Ranks : public RanksInTurn<Rank> {
 public:
  explicit Ranks(int size) : RanksInTurn(size), average_(run::scaling(DType::i32, size, 1)) {}

  // Starts the next operation, with new tensors if requested. A broadcast is always in place.
  void start(const Layout& layout, bool new_tensors = false) {
    layout_ = layout;
    layout_.in_place |= layout.kind == Kind::broadcast;
    number_++;
    for (int rank = 0; rank < size(); rank++) start((*this)[rank], rank, new_tensors);
  }

  bool turn(int rank) override {
    Rank& me = (*this)[rank];
    if (me.complete) return false;
    if (!std::exchange(me.posted, true)) {
      me.direct.post({.sequence = number_, .count = layout_.count});
      return true;
    }
    const bool moved = me.direct.pass();
    if (me.direct.done()) complete(rank);
    return moved;
  }
  bool any_active() const {
    return std::ranges::any_of(all(), [](const auto& rank) { return rank->direct.active(); });
  }

 private:
  std::int32_t value(int rank, std::size_t i) const { return std::int32_t(number_ * 7 + i * 3) + 1000 * rank; }

  // If the kind is `of_one_part`, the range of the rank's part, because the tensor has only this part; otherwise the
  // whole tensor.
  plan::Range within(Kind of_one_part, int rank) const {
    if (layout_.kind == of_one_part) return layout_.parts(size()).of(rank);
    return {0, layout_.has_parts() ? layout_.parts(size()).whole() : layout_.count};
  }

  void start(Rank& me, int rank, bool new_tensors) {
    const plan::Range in = within(Kind::allgather, rank), out = within(Kind::reduce_scatter, rank);
    for (MappedInts* tensor : {&me.input, &me.output}) {
      if (new_tensors) *tensor = MappedInts();
      tensor->resize(std::max(in.end(), out.end()));
    }
    me.elsewhere.resize(me.input.size());
    const bool elsewhere = layout_.elsewhere.contains(rank);
    std::int32_t* const first = elsewhere ? me.elsewhere.data() : me.input.data();
    std::int32_t* const second = elsewhere || layout_.in_place ? first : me.output.data();
    me.result = second + out.begin;
    for (std::size_t i = 0; i < in.count; i++) first[in.begin + i] = value(rank, i);
    me.posted = me.complete = false;
    const auto buffer = [](std::int32_t* data, std::uint64_t count) {
      return run::Buffer(reinterpret_cast<std::byte*>(data), count);
    };
    const Call operation{.kind = layout_.kind,
                         .dtype = DType::i32,
                         .count = layout_.counts.empty() ? layout_.count : layout_.parts(size()).whole(),
                         .root = layout_.root,
                         .counts = layout_.counts,
                         .input = buffer(first + in.begin, in.count),
                         .output = has_result(rank) ? buffer(me.result, out.count) : buffer(nullptr, 0)};
    me.direct.start(operation, operation.input, run::arithmetic(DType::i32, Op::sum),
                    layout_.average ? &average_ : nullptr);
    EXPECT_EQ(me.direct.may_show(), !elsewhere);
  }

  bool has_result(int rank) const { return layout_.kind != Kind::reduce || rank == layout_.root; }

  std::int32_t expected(int rank, std::size_t i) const {
    if (layout_.kind == Kind::broadcast) return value(layout_.root, i);
    const plan::Parts parts = layout_.parts(size());
    int owner = 0;
    while (layout_.kind == Kind::allgather && i >= parts.of(owner).end()) owner++;
    if (layout_.kind == Kind::allgather) return value(owner, i - parts.of(owner).begin);
    const std::size_t at = layout_.kind == Kind::reduce_scatter ? parts.of(rank).begin + i : i;
    std::int32_t sum = 0;
    for (int other = 0; other < size(); other++) sum += value(other, at);
    return layout_.average ? sum / size() : sum;
  }

  // Acts as the rank's program: checks the result, and then overwrites the tensors.
  void complete(int rank) {
    Rank& me = (*this)[rank];
    me.complete = true;
    const std::size_t count = has_result(rank) ? within(Kind::reduce_scatter, rank).count : 0;
    for (std::size_t i = 0; i < count; i++)
      ASSERT_EQ(me.result[i], expected(rank, i))
          << "kind " << int(layout_.kind) << ", rank " << rank << ", element " << i;
    std::ranges::fill(me.input, kScribble);
    std::ranges::fill(me.output, kScribble);
  }

  run::Scaling average_;
  Layout layout_;
  std::uint64_t number_ = 0;
};

// Two ranks are done after four turns each, one to post and three to move. With three ranks the first seven turns are
// tried in every order.
TEST(DirectCollective, IsRightInEveryOrderOfTurns) {
  for (const auto& [size, turns] : {std::pair{2, 8}, {3, 7}}) {
    Ranks ranks(size);
    std::vector<int> order;
    std::size_t n = 0;
    each_order(size, turns, order, [&] {
      const Kind kind = kKinds[n++ % kKinds.size()];
      ranks.start({.kind = kind, .count = 50, .in_place = n % 2 == 0, .root = order.front()});
      ranks.run(order);
      ASSERT_TRUE(ranks.all_complete());
    });
  }
}

TEST(DirectCollective, IsRightInChunksPartsAndBites) {
  for (const int size : {2, 3, 5, 8}) {
    Ranks ranks(size);
    Random random{std::uint64_t(size)};
    for (const Kind kind : kKinds)
      for (const std::size_t count : {1U, 15U, 17U, 4096U, 50'000U, 100'001U}) {
        Layout layout{.kind = kind, .count = count, .in_place = count % 2 == 0, .root = int(count) % size};
        layout.average = count > 16 && layout.reduces();
        if (layout.has_parts()) layout.count = 1 + count / std::size_t(size);
        if (layout.has_parts() && count % 4 != 0) layout.counts = uneven_counts(size, layout.count);
        ranks.start(layout);
        std::vector<int> order(200);
        for (int& rank : order) rank = int(random.below(std::uint64_t(size)));
        ranks.run(order);
        EXPECT_TRUE(ranks.all_complete());
      }
  }
}

// Each rank shows only the tensors that other ranks use. Tensors that only this rank uses may lie anywhere.
TEST(DirectCollective, ShowsOnlyWhatOthersUse) {
  Posts posts(0, 2, [](int, const Signature&) { return Error(ErrorCode::mismatch, "", 1); });
  DirectCollective direct(0, 2, posts);
  MappedInts shared(200);
  std::vector<std::int32_t> other(200);
  const auto shows = [&](Kind kind, void* input, void* output, int root) {
    const run::Buffer from(static_cast<std::byte*>(input), kind == Kind::allgather ? 100 : 200);
    const run::Buffer to(static_cast<std::byte*>(output), kind == Kind::reduce_scatter ? 100 : 200);
    const std::uint64_t count = kind == Kind::allgather || kind == Kind::reduce_scatter ? 100 : 200;
    const Call operation{.kind = kind, .dtype = DType::i32, .count = count, .root = root, .input = from, .output = to};
    direct.start(operation, from, run::arithmetic(DType::i32, Op::sum), nullptr);
    return direct.may_show();
  };
  for (const bool input : {false, true})
    for (const bool output : {false, true}) {
      void* const from = input ? shared.data() : other.data();
      void* const to = output ? shared.data() : other.data();
      EXPECT_EQ(shows(Kind::allreduce, from, to, -1), input && output);
      EXPECT_EQ(shows(Kind::broadcast, from, from, 0), input);
      EXPECT_EQ(shows(Kind::broadcast, to, to, 1), output);
      EXPECT_EQ(shows(Kind::reduce, from, to, 0), input && output);
      EXPECT_EQ(shows(Kind::reduce, from, to, 1), input);
      EXPECT_EQ(shows(Kind::allgather, from, to, -1), output);
      EXPECT_EQ(shows(Kind::reduce_scatter, from, to, -1), input);
    }
}

TEST(DirectCollective, CountsWhatMoves) {
  using Chunks = std::pair<std::uint64_t, std::uint64_t>;
  const auto moved = [](Kind kind, int rank) {
    Ranks ranks(3);
    Layout layout{.kind = kind, .count = 192, .root = 1};
    if (layout.has_parts()) layout.count = 64;
    ranks.start(layout);
    ranks.run();
    const DirectCollective::Moved bytes = ranks[rank].direct.moved();
    return Chunks(bytes.sent_bytes / 256, bytes.received_bytes / 256);
  };
  EXPECT_EQ(moved(Kind::allreduce, 0), Chunks(4, 4)) << "two that it writes, and two that the others read";
  EXPECT_EQ(moved(Kind::broadcast, 1), Chunks(4, 0));
  EXPECT_EQ(moved(Kind::broadcast, 0), Chunks(1, 3)) << "what it passes on to rank 2";
  EXPECT_EQ(moved(Kind::reduce, 1), Chunks(2, 4));
  EXPECT_EQ(moved(Kind::allgather, 0), Chunks(2, 2));
  EXPECT_EQ(moved(Kind::reduce_scatter, 0), Chunks(2, 2));
}

// The tensors of some ranks lie in other memory. In every order of turns, the tensors remain unchanged, and no rank
// completes or stays active.
TEST(DirectCollective, IsRefusedByAllIfOneCannotShow) {
  Ranks ranks(3);
  std::vector<int> order;
  std::size_t n = 0;
  each_order(3, 5, order, [&] {
    const std::set<int> elsewhere{order[0], order[1]};
    ranks.start({.kind = kKinds[n++ % kKinds.size()], .count = 50, .elsewhere = elsewhere});
    ranks.run(order);
    ASSERT_FALSE(ranks.any_active() || ranks.all_complete());
    for (int rank = 0; rank < 3; rank++) ASSERT_TRUE(elsewhere.contains(rank) || ranks[rank].input[1] != kScribble);
  });
  ranks.start({});
  ranks.run();
  EXPECT_TRUE(ranks.all_complete());
}

// A rank may already be in the next operation, such as a root that has sent everything by the plan.
TEST(DirectCollective, IsRefusedByARankThatHasGoneOnWithoutIt) {
  Ranks ranks(2);
  ranks.start({.kind = Kind::broadcast, .elsewhere = {1}});
  ranks.turn(1);
  ranks[1].direct.post({.sequence = 2, .count = 7});
  ranks.run({0, 0});
  EXPECT_FALSE(ranks.any_active());
  EXPECT_EQ(ranks[0].told_of, -1);
}

// The test uses more tensors than ranks keep mapped, in place and out of place, and includes tensors that are never
// used.
TEST(DirectCollective, MapsNewTensorsEveryTime) {
  Ranks ranks(2);
  for (int k = 0; k < 300; k++) {
    const bool refused = k % 100 < 30;
    Layout layout{.kind = kKinds[std::size_t(k) % kKinds.size()], .in_place = k % 3 == 0};
    if (refused) layout.elsewhere = {0};
    ranks.start(layout, k % 5 != 0);
    ranks.run();
    // The first collective after the refusals may be refused too, because too many descriptors are still under way.
    if (k % 100 == 30) continue;
    ASSERT_EQ(ranks.all_complete(), !refused) << k;
    ASSERT_FALSE(refused && ranks.any_active()) << k;
  }
}

TEST(DirectCollective, FindsThatTheOtherRankCallsSomethingElse) {
  Ranks ranks(2);
  ranks.start({});
  ranks[0].direct.post({.sequence = 1, .count = 100});
  ranks[1].direct.post({.sequence = 1, .count = 101});
  EXPECT_THROW(ranks[0].direct.pass(), Error);
  EXPECT_EQ(ranks[0].told_of, 1);
}

TEST(DirectCollective, WaitsForThoseThatHaveNotComeAndIsWokenByThem) {
  Ranks ranks(3);
  ranks.start({});
  ranks.turn(0);
  ranks.turn(2);
  ranks.turn(0);
  EXPECT_EQ(ranks[0].direct.awaited(), std::vector{1});
  EXPECT_TRUE(ranks[0].direct.may_sleep());
  ranks.turn(1);
  EXPECT_FALSE(ranks[0].direct.may_sleep());
  ranks.run();
  EXPECT_TRUE(ranks.all_complete());
}

// False if rank 0 is done after these turns, a third of which are rank 1's.
bool is_stopped_after(int turns, Kind kind) {
  constexpr std::size_t kBites = 3, kCount = kBites * 2 * (64 << 10) / sizeof(std::int32_t);
  Ranks ranks(2);
  Layout layout{.kind = kind, .count = kCount};
  if (layout.has_parts()) layout.count /= 2;
  ranks.start(layout);
  for (int k = 0; k < turns; k++) ranks.turn(k % 3 % 2);
  if (ranks[0].complete) return false;
  ranks[0].direct.give_up();
  const MappedInts before = ranks[0].input;
  bool stopped = false;
  try {
    for (int k = 0; k < 100; k++) ranks.turn(1);
  } catch (const Error& e) {
    stopped = true;
    EXPECT_EQ(e.rank(), 0);
  }
  EXPECT_FALSE(ranks[1].complete) << turns;
  EXPECT_EQ(ranks[0].input, before) << "nothing is written there any more";
  EXPECT_TRUE(stopped || ranks[1].direct.active()) << "it waits until the control plane says why";
  return true;
}

// A rank gives up at any moment. From then on no other rank uses its tensors, and another rank completes only if the
// rank that gave up had ended its part.
TEST(DirectCollective, StopsWhenARankGivesUp) {
  for (const Kind kind : {Kind::allreduce, Kind::allgather})
    for (int turns = 1; turns < 14 && is_stopped_after(turns, kind);) turns++;
}

}  // namespace
}  // namespace anello::group
