// Allreduce where the tensors lie: between ranks that take turns in every order, over real windows.
#include "ring/group/direct_allreduce.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "ring/shm/shm_link.hpp"
#include "tests/support/random.hpp"

namespace anello::group {
namespace {

using shm::ShmLink;
using MappedInts = std::vector<std::int32_t, Allocator<std::int32_t>>;

constexpr std::size_t kPipe = 4096;
constexpr std::int32_t kScribble = 1 << 20;

// Links between every two of some ranks in this process.
class Links {
 public:
  explicit Links(int size) : links_(std::size_t(size)) {
    for (auto& row : links_) row.resize(std::size_t(size));
    for (int a = 0; a < size; a++)
      for (int b = 0; b < a; b++) connect(a, b);
  }
  ShmLink& between(int from, int to) { return *links_[std::size_t(from)][std::size_t(to)]; }

 private:
  static Descriptor bell() { return Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }
  void connect(int a, int b) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    const std::size_t bytes = ShmLink::file_bytes(kPipe);
    shm::MemoryFile file = shm::MemoryFile::create(bytes);
    shm::MemoryFile same = shm::MemoryFile::adopt(Descriptor(dup(file.descriptor())), bytes);
    const auto make = [&](int from, int to, shm::MemoryFile memory, ShmLink::Side side, int end) {
      links_[std::size_t(from)][std::size_t(to)] =
          std::make_unique<ShmLink>(std::move(memory), kPipe, side, bell(), Descriptor(end));
    };
    make(a, b, std::move(file), ShmLink::Side::maker, ends[0]);
    make(b, a, std::move(same), ShmLink::Side::taker, ends[1]);
  }
  std::vector<std::vector<std::unique_ptr<ShmLink>>> links_;
};

// One rank, and its tensors of the operation that is under way.
struct Rank {
  DirectAllreduce direct;
  MappedInts input, output;
  std::vector<std::int32_t> elsewhere;  // in place of both
  bool posted = false, complete = false;
  int told_of = -1;  // whose signature differs

  Rank(int rank, int size)
      : direct(rank, size, [this](int peer, const Signature&) {
          told_of = peer;
          return Error(ErrorCode::mismatch, "they differ", peer);
        }) {}
};

struct Layout {
  std::size_t count = 100;
  bool in_place = true;
  std::set<int> elsewhere = {};  // ranks whose tensors cannot be mapped
  bool average = false;
};

class Ranks {
 public:
  explicit Ranks(int size) : links_(size), average_(run::scaling(DType::i32, size, 1)) {
    for (int rank = 0; rank < size; rank++) ranks_.push_back(std::make_unique<Rank>(rank, size));
    for (int rank = 0; rank < size; rank++)
      for (int peer = 0; peer < size; peer++)
        if (peer != rank) connect(rank, peer);
  }
  int size() const { return int(ranks_.size()); }
  Rank& operator[](int rank) { return *ranks_[std::size_t(rank)]; }
  void connect(int rank, int peer) { (*this)[rank].direct.connect(peer, links_.between(rank, peer)); }

  // The next operation, on new tensors if asked for.
  void start(const Layout& layout, bool new_tensors = false) {
    layout_ = layout;
    number_++;
    for (int rank = 0; rank < size(); rank++) start((*this)[rank], rank, new_tensors);
  }

  // One turn of this rank. False if it could do nothing.
  bool turn(int rank) {
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
  // Turns in this order, as far as it goes, and then round and round, until nothing moves.
  void run(std::vector<int> order = {}) {
    for (const int rank : order) turn(rank);
    for (bool moved = true; std::exchange(moved, false);)
      for (int rank = 0; rank < size(); rank++) moved |= turn(rank);
  }
  bool all_complete() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->complete; });
  }
  bool any_active() const {
    return std::ranges::any_of(ranks_, [](const auto& rank) { return rank->direct.active(); });
  }

 private:
  std::int32_t value(int rank, std::size_t i) const { return std::int32_t(number_ * 7 + i * 3) + 1000 * rank; }

  void start(Rank& me, int rank, bool new_tensors) {
    const std::size_t count = layout_.count;
    for (MappedInts* tensor : {&me.input, &me.output}) {
      if (new_tensors) *tensor = MappedInts();
      tensor->resize(count);
    }
    me.elsewhere.resize(count);
    const bool elsewhere = layout_.elsewhere.contains(rank);
    std::int32_t* const input = elsewhere ? me.elsewhere.data() : me.input.data();
    std::int32_t* const output = elsewhere || layout_.in_place ? input : me.output.data();
    for (std::size_t i = 0; i < count; i++) input[i] = value(rank, i);
    me.posted = me.complete = false;
    const auto buffer = [&](std::int32_t* data) { return run::Buffer(reinterpret_cast<std::byte*>(data), count); };
    me.direct.start(run::arithmetic(DType::i32, Op::sum), layout_.average ? &average_ : nullptr, buffer(input),
                    buffer(output), count);
    EXPECT_EQ(me.direct.may_show(), !elsewhere);
  }

  // As its program would: looks at the result, and uses the tensors for something else.
  void complete(int rank) {
    Rank& me = (*this)[rank];
    me.complete = true;
    const MappedInts& output = layout_.in_place ? me.input : me.output;
    for (std::size_t i = 0; i < layout_.count; i++) {
      std::int32_t sum = 0;
      for (int other = 0; other < size(); other++) sum += value(other, i);
      ASSERT_EQ(output[i], layout_.average ? sum / size() : sum) << "rank " << rank << ", element " << i;
    }
    std::ranges::fill(me.input, kScribble);
    std::ranges::fill(me.output, kScribble);
  }

  Links links_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  run::Scaling average_;
  Layout layout_;
  std::uint64_t number_ = 0;
};

// All orders of `turns` turns by `ranks` ranks.
void each_order(int ranks, int turns, std::vector<int>& order, const std::function<void()>& use) {
  if (turns == 0) return use();
  for (int rank = 0; rank < ranks; rank++) {
    order.push_back(rank);
    each_order(ranks, turns - 1, order, use);
    order.pop_back();
  }
}

// Two ranks have done all they can after four turns each, one to post and three to move; three ranks are let loose
// after seven.
TEST(DirectAllreduce, IsRightInEveryOrderOfTurns) {
  for (const auto& [size, turns] : {std::pair{2, 8}, {3, 7}}) {
    Ranks ranks(size);
    std::vector<int> order;
    each_order(size, turns, order, [&] {
      ranks.start({.count = 50, .in_place = order.back() == 0});
      ranks.run(order);
      ASSERT_TRUE(ranks.all_complete());
    });
  }
}

TEST(DirectAllreduce, IsRightInChunksAndBites) {
  for (const int size : {2, 3, 5, 8}) {
    Ranks ranks(size);
    Random random{std::uint64_t(size)};
    for (const std::size_t count : {1U, 15U, 17U, 4096U, 50'000U, 100'001U}) {
      ranks.start({.count = count, .in_place = count % 2 == 0, .average = count > 16});
      std::vector<int> order(200);
      for (int& rank : order) rank = int(random.below(std::uint64_t(size)));
      ranks.run(order);
      EXPECT_TRUE(ranks.all_complete());
    }
  }
}

// The results are as they were, and each rank knows it: with any ranks whose tensors lie elsewhere, in any order.
TEST(DirectAllreduce, IsRefusedByAllIfOneCannotShow) {
  Ranks ranks(3);
  std::vector<int> order;
  each_order(3, 5, order, [&] {
    const std::set<int> elsewhere{order[0], order[1]};
    ranks.start({.count = 50, .elsewhere = elsewhere});
    ranks.run(order);
    ASSERT_FALSE(ranks.any_active() || ranks.all_complete());
    for (int rank = 0; rank < 3; rank++) ASSERT_TRUE(elsewhere.contains(rank) || ranks[rank].input[1] != kScribble);
  });
  ranks.start({});
  ranks.run();
  EXPECT_TRUE(ranks.all_complete());
}

// More of them than stay mapped, in one place and in two, also where some are never used.
TEST(DirectAllreduce, MapsNewTensorsEveryTime) {
  Ranks ranks(2);
  for (int k = 0; k < 300; k++) {
    const bool refused = k % 100 < 30;
    Layout layout{.in_place = k % 3 == 0};
    if (refused) layout.elsewhere = {0};
    ranks.start(layout, k % 5 != 0);
    ranks.run();
    // The first that is shown again may be refused: too many files were on their way.
    if (k % 100 == 30) continue;
    ASSERT_EQ(ranks.all_complete(), !refused) << k;
    ASSERT_FALSE(refused && ranks.any_active()) << k;
  }
}

TEST(DirectAllreduce, FindsThatTheOtherRankCallsSomethingElse) {
  Ranks ranks(2);
  ranks.start({});
  ranks[0].direct.post({.sequence = 1, .count = 100});
  ranks[1].direct.post({.sequence = 1, .count = 101});
  EXPECT_THROW(ranks[0].direct.pass(), Error);
  EXPECT_EQ(ranks[0].told_of, 1);
}

TEST(DirectAllreduce, WaitsForThoseThatHaveNotComeAndIsWokenByThem) {
  Ranks ranks(3);
  ranks.start({});
  ranks.turn(0);
  ranks.turn(2);
  ranks.turn(0);
  std::vector<int> awaited;
  ranks[0].direct.each_awaited([&](int peer) { awaited.push_back(peer); });
  EXPECT_EQ(awaited, std::vector{1});
  EXPECT_TRUE(ranks[0].direct.may_sleep());
  ranks.turn(1);
  EXPECT_FALSE(ranks[0].direct.may_sleep());
  ranks.run();
  EXPECT_TRUE(ranks.all_complete());
}

// Whenever a rank gives up, no other completes unless that rank had ended its part, and none uses its tensors then.
TEST(DirectAllreduce, StopsWhenARankGivesUp) {
  constexpr std::size_t kBites = 3, kCount = kBites * 2 * (64 << 10) / sizeof(std::int32_t);
  for (int turns = 1; turns < 14; turns++) {
    Ranks ranks(2);
    ranks.start({.count = kCount});
    std::vector<int> order;
    for (int k = 0; k < turns; k++) order.push_back(k % 3 % 2);
    for (const int rank : order) ranks.turn(rank);
    if (ranks[0].complete) break;
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
  }
}

}  // namespace
}  // namespace anello::group
