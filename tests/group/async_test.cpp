// Asynchronous work: it goes on by itself, in the order of submission, mixed with calls that block.
#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <tuple>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"
#include "tests/support/started.hpp"
#include "tests/support/undisturbed.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class AsyncInWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AsyncInWorldsOf, testing::ValuesIn(few_world_sizes()));

// Starts operations of all kinds, and waits for them in any order, with blocking calls in between.
TEST_P(AsyncInWorldsOf, AnyWorkMixesWithCallsThatBlock) {
  run_world(GetParam(), [](World& world) {
    Random random(7), own(std::uint64_t(world.rank()) + 100);
    std::vector<Started> started;
    for (int k = 0; k < 300; k++) {
      started.emplace_back(world, any_exercise(world.size(), random));
      if (random.percent(10)) {
        EXPECT_EQ(carry_out(world, any_exercise(world.size(), random)), "");
      }
      if (own.percent(10)) started[own.below(started.size())].work.wait();
    }
    for (std::size_t left = started.size(); left > 0; left--) {
      Started& one = started[(left * 7) % started.size()];
      one.work.wait();
      EXPECT_TRUE(one.work.done());
    }
    for (Started& one : started) {
      one.work.wait();
      EXPECT_EQ(one.part->wrong(), "");
    }
  });
}

// The other ranks need this rank's part of an operation while its program computes.
TEST_P(AsyncInWorldsOf, GoesOnWithoutHelp) {
  run_world(GetParam(), [](World& world) {
    Started first(world, {.count = 100'000}), second(world, {.kind = Kind::allgather, .count = 1000});
    const auto began = std::chrono::steady_clock::now();
    while (!second.work.done() && std::chrono::steady_clock::now() - began < seconds(20)) std::this_thread::yield();
    EXPECT_TRUE(second.work.done() && first.work.done());
    EXPECT_EQ(first.part->wrong(), "");
    EXPECT_EQ(second.part->wrong(), "");
    EXPECT_EQ(second.work.error(), std::nullopt);
    world.barrier();
  });
}

TEST_P(AsyncInWorldsOf, TenThousandAtOnceEndInOrder) {
  constexpr int kMany = 10'000;
  run_world(GetParam(), [](World& world) {
    std::vector<std::vector<std::int64_t>> values(kMany);
    std::vector<Work> work;
    std::vector<int> order;
    for (int k = 0; k < kMany; k++) {
      values[std::size_t(k)].assign(std::size_t(k % 37 == 0 ? 2000 : k % 11), world.rank() + k);
      work.push_back(world.allreduce_async(values[std::size_t(k)]));
      work.back().when_done([&order, k](const Error* error) {
        EXPECT_EQ(error, nullptr);
        order.push_back(k);
      });
      if (k % 3 == 0) work.pop_back();  // a handle dropped early
    }
    world.barrier();  // ordered after all of them
    for (const Work& one : work) EXPECT_TRUE(one.done());
    for (int k = 0; k < kMany; k++) {
      const std::int64_t sum = std::int64_t(world.size()) * k + world.size() * (world.size() - 1) / 2;
      ASSERT_EQ(values[std::size_t(k)], std::vector<std::int64_t>(values[std::size_t(k)].size(), sum)) << k;
    }
    ASSERT_EQ(order.size(), std::size_t(kMany));
    for (int k = 0; k < kMany; k++) ASSERT_EQ(order[std::size_t(k)], k);
    world.barrier();
  });
}

TEST(Async, WaitForGivesUpInTime) {
  undisturbed(milliseconds(5), [&] {
    run_world(2, [](World& world) {
      std::vector<float> values(10, 1.F);
      if (world.rank() == 1) {
        world.barrier();
        std::this_thread::sleep_for(milliseconds(100));
      }
      if (world.rank() == 0) world.barrier();
      Work work = world.allreduce_async(values);
      if (world.rank() == 0) {
        EXPECT_FALSE(work.wait_for(milliseconds(20)));
        EXPECT_FALSE(work.done());
      }
      EXPECT_TRUE(work.wait_for(seconds(20)));
      EXPECT_TRUE(work.wait_for(milliseconds(0)));
      EXPECT_EQ(values[9], 2.F);
      EXPECT_TRUE(Work().done());
      Work().wait();
    });
  });
}

TEST(Async, WaitForTheLongestTimeWaits) {
  run_world(2, [](World& world) {
    std::vector<float> values(10, 1.F);
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(50));
    Work work = world.allreduce_async(values);
    EXPECT_TRUE(work.wait_for(milliseconds::max()));
    EXPECT_EQ(values[9], 2.F);
  });
}

TEST(Async, WaitAllWaitsForAll) {
  run_world(2, [](World& world) {
    std::vector<std::vector<float>> values(5, std::vector<float>(100'000, 1.F));
    std::vector<Work> works(1);  // the first one is empty
    for (auto& each : values) works.push_back(world.allreduce_async(each));
    wait_all(works);
    for (const Work& work : works) EXPECT_TRUE(work.done());
    for (const auto& each : values) EXPECT_EQ(each.back(), 2.F);
    wait_all({});
  });
}

TEST(Async, WaitAllThrowsTheFirstErrorInTheOrderOfTheList) {
  std::atomic<bool> started = false;  // rank 0 is done with the first operation and has started the others
  run_world(2, [&](World& world) {
    std::vector<float> a(10), b(10), c(10);
    std::vector<Work> works = {world.allreduce_async(a)};
    works[0].wait();
    if (world.rank() == 1) {
      started.wait(false);
      world.abort("enough");
      return;
    }
    works.push_back(world.allreduce_async(b, Op::sum, {.name = "the second"}));
    works.push_back(world.allreduce_async(c, Op::sum, {.name = "the third"}));
    started = true;
    started.notify_all();
    try {
      wait_all(works);
      ADD_FAILURE() << "rank 1 did not call the last two";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("'the second'"));
    }
    for (const Work& work : works) EXPECT_TRUE(work.done());
  });
}

// Several threads at once, each of which waits for its own work.
TEST(Async, ThreadsShareAWorld) {
  run_world(3, [](World& world) {
    constexpr int kThreads = 4, kEach = 50;
    std::vector<Started> started;
    for (int k = 0; k < kThreads * kEach; k++) started.emplace_back(world, Exercise{.count = std::uint64_t(k) * 13});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++)
      threads.emplace_back([&, t] {
        for (int k = t; k < kThreads * kEach; k += kThreads) started[std::size_t(k)].work.wait();
      });
    for (std::thread& thread : threads) thread.join();
    for (Started& one : started) EXPECT_EQ(one.part->wrong(), "");
  });
}

// A waiting thread also carries out earlier operations. The later operations must go on when no thread waits any more.
TEST(Async, GoesOnWhenAllWhoWaitedHaveGone) {
  run_world(2, [](World& world) {
    std::vector<std::vector<float>> values(4, std::vector<float>(500));
    for (int round = 0; round < 300 / kSlowdown; round++) {
      std::vector<Work> work;
      for (auto& each : values) work.push_back(world.allreduce_async(each));
      std::thread one([&] { work[0].wait(); }), other([&] { work[1].wait(); });
      work[1].wait();
      one.join();
      other.join();
      const auto began = std::chrono::steady_clock::now();
      while (!work[3].done() && std::chrono::steady_clock::now() - began < seconds(10)) std::this_thread::yield();
      ASSERT_TRUE(work[3].done()) << "round " << round;
    }
    world.barrier();
  });
}

TEST(Async, ACallbackMayStartWorkButNotWait) {
  run_world(2, [](World& world) {
    std::vector<float> first(10, 1.F), second(10, 1.F);
    std::atomic<bool> refused = false, over = false;
    world.allreduce_async(first).when_done([&](const Error*) {
      try {
        world.barrier();
      } catch (const Error& e) {
        refused = e.code() == ErrorCode::invalid_argument;
      }
      world.allreduce_async(second).when_done([&](const Error*) { over = true; });
    });
    while (!over) std::this_thread::yield();
    EXPECT_TRUE(refused);
    EXPECT_EQ(second[3], 2.F);
    bool called = false;
    world.barrier_async().when_done([&](const Error*) {});
    world.barrier();
    Work done = world.barrier_async();
    done.wait();
    done.when_done([&](const Error* error) { called = !error; });
    EXPECT_TRUE(called);
    world.barrier();
  });
}

TEST(Async, WrongArgumentsAreRefusedAtOnce) {
  run_world(2, [](World& world) {
    std::vector<float> values(10);
    EXPECT_THROW(std::ignore = world.allreduce_async(values, Op::bit_or), Error);
    EXPECT_THROW((std::ignore = world.allreduce_async(values, Op::sum, {.algorithm = "rong"})), Error);
    world.allreduce_async(values).wait();
  });
}

TEST(Async, EveryWorkOfAFailedWorldSaysSo) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    std::vector<float> values(10), more(20), last(30);
    world.barrier();
    Work first = world.allreduce_async(std::span(values).first(world.rank() == 1 ? 9 : 10));
    Work second = world.allreduce_async(more, Op::sum, {.name = "second"});
    std::atomic<int> told = 0;
    second.when_done([&](const Error* error) { told = error ? 1 : 2; });
    EXPECT_THROW(first.wait(), Error);
    try {
      second.wait();
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("allreduce #2 (sum of 20 f32) 'second'"), HasSubstr("the counts differ")));
    }
    while (told == 0) std::this_thread::yield();
    EXPECT_EQ(told, 1);
    EXPECT_TRUE(second.error());
    (void)world.allreduce_async(last);
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

// The program does not wait for the work, and the other rank never calls the operation.
TEST(Async, AHandleOutlivesItsWorld) {
  std::vector<float> values(10);
  Work left;
  run_world(2, [&](World& world) {
    world.barrier();
    if (world.rank() == 0) left = world.allreduce_async(values);
  });
  EXPECT_TRUE(left.done());
  ASSERT_TRUE(left.error());
  EXPECT_THROW(left.wait(), Error);
  EXPECT_THAT(left.error()->what(), HasSubstr("allreduce #1 (sum of 10 f32)"));
}

TEST(Async, AnAbortEndsWorkThatNobodyWaitsFor) {
  run_world(2, [](World& world) {
    std::vector<float> values(10);
    world.barrier();
    if (world.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      world.abort("enough");
      return;
    }
    Work work = world.allreduce_async(values);
    const auto began = std::chrono::steady_clock::now();
    while (!work.done() && std::chrono::steady_clock::now() - began < seconds(5)) std::this_thread::yield();
    ASSERT_TRUE(work.error());
    EXPECT_EQ(work.error()->code(), ErrorCode::aborted);
  });
}

}  // namespace
}  // namespace anello::group
