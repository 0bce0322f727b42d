// Tests how a rank asks whether another rank has sent something, for programs that receive from any rank.
#include <gmock/gmock.h>

#include <anello/memory.hpp>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using testing::HasSubstr;

using Values = std::vector<std::int32_t, Allocator<std::int32_t>>;

void await_something(Group& group, int from) {
  while (!group.probe(from)) std::this_thread::yield();
}

// Returns the next rank after `last` that has sent something.
int any_that_has_sent(Group& group, int last) {
  for (int from = (last + 1) % group.size();; from = (from + 1) % group.size())
    if (from != group.rank() && group.probe(from)) return from;
}

class ProbesInWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ProbesInWorldsOf, testing::Values(2, 3, 4, 7));

// In shared memory, large tensors in memory of the engine are not copied into a link, and short messages have a cache
// line of their own. With these counts, messages end at any place in a cache line.
TEST_P(ProbesInWorldsOf, FindWhatAnyRankHasSent) {
  run_world(GetParam(), [](World& world) {
    const int n = world.size(), rank = world.rank();
    int from = rank;
    for (const std::size_t count : {0, 1, 3, 1000, 100'001, 5}) {
      const Values mine(count, rank);
      std::vector<Work> sent;
      for (int to = 0; to < n; to++)
        if (to != rank) sent.push_back(world.send_async(mine, to));
      std::vector<int> senders;
      for (int k = 1; k < n; k++) {
        senders.push_back(from = any_that_has_sent(world, from));
        Values received(count, -1);
        world.recv(received, from);
        EXPECT_TRUE(received == Values(count, from)) << count << " from " << from;
      }
      for (Work& each : sent) each.wait();
      world.barrier();
      for (int other = 0; other < n; other++)
        if (other != rank) {
          EXPECT_EQ(std::ranges::count(senders, other), 1) << count << " from " << other;
          EXPECT_FALSE(world.probe(other)) << "all has been taken";
        }
      world.barrier();  // no rank sends the next message before all have checked
    }
  });
}

TEST(Probe, FindsNothingThatAPendingReceiveIsFor) {
  run_world(2, [](World& world) {
    const std::vector<int> first(1, 1), second(1, 2);
    std::vector<int> received(1);
    if (world.rank() == 1) {
      Work pending = world.recv_async(received, 0);
      EXPECT_FALSE(world.probe(0));
      world.barrier();
      pending.wait();
      EXPECT_EQ(received, first);
      await_something(world, 0);
      EXPECT_TRUE(world.probe(0)) << "nobody has taken it";
      world.recv(received, 0);
      EXPECT_EQ(received, second);
      EXPECT_FALSE(world.probe(0));
    } else {
      world.barrier();
      world.send(first, 1);
      world.send(second, 1);
    }
    world.barrier();  // probing a rank that has left is an error
  });
}

TEST(Probe, OfAGroupFindsWhatWasSentInIt) {
  run_world(3, [](World& world) {
    if (world.rank() == 1) return;
    Group pair = world.group({2, 0});
    std::vector<int> value(1, world.rank());
    if (world.rank() == 0) {
      pair.send(value, 0);
    } else {
      await_something(pair, 1);
      EXPECT_FALSE(world.probe(0));
      pair.recv(value, 1);
      EXPECT_EQ(value[0], 0);
    }
    pair.barrier();
  });
}

TEST(Probe, MayBeMadeInACallback) {
  run_world(2, [](World& world) {
    std::vector<int> values(2, world.rank());
    if (world.rank() == 0) {
      for (int& each : values) world.send(std::span(&each, 1), 1);
    } else {
      std::atomic<bool> found = false;
      world.recv_async(std::span(values).first(1), 0).when_done([&](const Error*) {
        await_something(world, 0);
        found = true;
      });
      while (!found) std::this_thread::yield();
      world.recv(std::span(values).last(1), 0);
    }
  });
}

// A rank's messages can still be received after the rank has left.
TEST(Probe, OfARankThatHasLeftThrows) {
  const std::vector<Told> all = told_on_all_ranks(2, [](World& world) {
    std::vector<int> value(1, 7);
    if (world.rank() == 0) {
      World ends = std::move(world);
      ends.send(value, 1);
    } else {
      value[0] = 0;
      await_something(world, 0);
      world.recv(value, 0);
      EXPECT_EQ(value[0], 7);
      await_something(world, 0);
    }
  });
  ASSERT_TRUE(all[1].error);
  EXPECT_EQ(all[1].error->code(), ErrorCode::rank_left) << all[1].error->what();
  EXPECT_EQ(all[1].error->rank(), 0);
  EXPECT_THAT(all[1].error->what(), HasSubstr("probe in the transfers from rank 0 to rank 1: rank 0 "));
}

TEST(Probe, OfAWorldThatHasFailedThrows) {
  for (const Told& told : told_on_all_ranks(3, [](World& world) {
         if (world.rank() == 2) world.abort("enough");
         await_something(world, (world.rank() + 1) % 3);
       })) {
    ASSERT_TRUE(told.error) << "rank " << told.rank;
    EXPECT_EQ(told.error->code(), ErrorCode::aborted);
    EXPECT_THAT(told.error->what(), HasSubstr("enough"));
  }
}

// The ranks leave one after the other. So some ranks probe a rank whose connection has ended, and wait for a verdict.
TEST(Probe, InAnotherThreadEndsWithTheWorld) {
  for (int round = 0; round < 5; round++)
    told_on_all_ranks(3, [](World& world) {
      Group group = world.group({0, 1, 2});
      std::atomic<bool> asked = false;
      std::thread prober([&, from = (group.rank() + 1) % 3] {
        try {
          for (;; asked = true) (void)group.probe(from);
        } catch (const Error&) {
        }
      });
      while (!asked) std::this_thread::yield();
      { const World ends = std::move(world); }
      prober.join();
    });
}

TEST(Probe, OfNobodyIsRefused) {
  run_world(2, [](World& world) {
    const auto refusal = [&](int from) -> std::string {
      try {
        static_cast<void>(world.probe(from));
      } catch (const Error& e) {
        return e.code() == ErrorCode::invalid_argument ? e.what() : "";
      }
      return "";
    };
    EXPECT_THAT(refusal(2), HasSubstr("probe: peer 2 is not one of 2 ranks"));
    EXPECT_THAT(refusal(-1), HasSubstr("probe: peer -1 is not one of 2 ranks"));
    EXPECT_THAT(refusal(world.rank()), HasSubstr("probe: a rank cannot be its own peer"));
  });
}

}  // namespace
}  // namespace anello::group
