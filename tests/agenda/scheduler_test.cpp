// Named operations between ranks that are threads: results, different orders, errors that the world survives, and
// joins.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/agenda/schedulers.hpp"
#include "tests/support/in_child.hpp"
#include "tests/support/random.hpp"

namespace anello::agenda {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class SchedulerInWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SchedulerInWorldsOf, testing::ValuesIn(few_world_sizes()));

// Each rank submits in an order of its own, from two threads, and waits in yet another order.
TEST_P(SchedulerInWorldsOf, OperationsInAnyOrderAndFromAnyThread) {
  run_agendas(GetParam(), [](World& world, Scheduler& scheduler) {
    constexpr std::size_t kNames = 40;
    for (int step = 0; step < 5; step++) {
      std::vector<std::vector<float>> tensors;
      for (std::size_t k = 0; k < kNames; k++) tensors.emplace_back(1 + 97 * k, float(world.rank() + int(k) + step));
      std::vector<Scheduler::Handle> handles(kNames);
      std::vector<std::size_t> order(kNames);
      std::iota(order.begin(), order.end(), std::size_t(0));
      Random random(std::uint64_t(100 * world.rank() + step));
      random.shuffle(order);
      const auto submit = [&](std::size_t from, std::size_t to) {
        for (std::size_t k = from; k < to; k++)
          handles[order[k]] = scheduler.submit(
              {.verb = Verb::allreduce, .name = std::to_string(order[k]), .inputs = {view_of(tensors[order[k]])}});
      };
      std::thread other(submit, kNames / 2, kNames);
      submit(0, kNames / 2);
      other.join();
      random.shuffle(order);
      for (const std::size_t k : order) wait(scheduler, handles[k]);
      const int n = world.size();
      for (std::size_t k = 0; k < kNames; k++)
        EXPECT_THAT(tensors[k], Each(float(n * (int(k) + step) + n * (n - 1) / 2)));
    }
  });
}

// No rank waits: the progress thread does everything.
TEST_P(SchedulerInWorldsOf, OperationsGoOnWithoutHelp) {
  run_agendas(GetParam(), [](World& world, Scheduler& scheduler) {
    std::vector<double> tensor(1000, 1);
    const auto operation = scheduler.submit({.verb = Verb::allreduce, .name = "x", .inputs = {view_of(tensor)}});
    const auto end = steady_clock::now() + std::chrono::seconds(60);
    while (!scheduler.done(*operation) && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(scheduler.done(*operation));
    EXPECT_THAT(tensor, Each(world.size()));
  });
}

TEST_P(SchedulerInWorldsOf, EveryVerb) {
  run_agendas(GetParam(), [](World& world, Scheduler& scheduler) {
    const auto rank = std::size_t(world.rank()), n = std::size_t(world.size());
    for (int times = 0; times < 3; times++) {
      std::vector<std::int32_t> rows(3 * (rank + std::size_t(times)), int(rank));
      ArrayView array = view_of(rows);
      array.shape = {rank + std::size_t(times), 3};
      std::vector<float> other(rank % 2, 7);
      const auto gathered =
          scheduler.submit({.verb = Verb::allgather, .name = "g", .inputs = {array, view_of(other)}}, times == 1);
      wait(scheduler, gathered);
      std::vector<std::int32_t> all;
      for (std::size_t from = 0; from < n; from++) all.insert(all.end(), 3 * (from + std::size_t(times)), int(from));
      EXPECT_EQ(output<std::int32_t>(*gathered), all);
      EXPECT_EQ(gathered->outputs()[0].shape, (std::vector<std::uint64_t>{all.size() / 3, 3}));
      EXPECT_EQ(output<float>(*gathered, 1), std::vector<float>(n / 2, 7));
      EXPECT_EQ(gathered->rows()[0][n - 1], n - 1 + std::size_t(times));

      std::vector<std::uint64_t> splits(n);
      std::vector<std::uint8_t> sent;
      for (std::size_t to = 0; to < n; to++) {
        splits[to] = rank + to;
        sent.insert(sent.end(), rank + to, std::uint8_t(10 * rank + to));
      }
      const auto exchanged =
          scheduler.submit({.verb = Verb::alltoall, .name = "a", .inputs = {view_of(sent)}, .splits = splits});
      wait(scheduler, exchanged);
      std::vector<std::uint8_t> received;
      for (std::size_t from = 0; from < n; from++)
        received.insert(received.end(), rank + from, std::uint8_t(10 * from + rank));
      EXPECT_EQ(output<std::uint8_t>(*exchanged), received);

      std::vector<double> first{double(rank), 1}, second{double(rank)};
      std::vector<std::int8_t> third{std::int8_t(rank)};
      wait(scheduler, scheduler.submit({.verb = Verb::broadcast,
                                        .inputs = {view_of(first), view_of(third), view_of(second)},
                                        .root = world.size() - 1}));
      EXPECT_THAT(first, ElementsAre(double(n - 1), 1));
      EXPECT_THAT(second, ElementsAre(double(n - 1)));
      EXPECT_THAT(third, ElementsAre(std::int8_t(n - 1)));

      std::vector<std::int64_t> summed(2 * (2 * n + 1), std::int64_t(rank) + 1);
      ArrayView matrix = view_of(summed);
      matrix.shape = {2 * n + 1, 2};
      const auto scattered = scheduler.submit({.verb = Verb::reduce_scatter, .inputs = {matrix, matrix}});
      wait(scheduler, scattered);
      const std::size_t mine = rank == 0 ? 3 : 2;
      for (const std::size_t k : {0U, 1U})
        EXPECT_EQ(output<std::int64_t>(*scattered, k),
                  std::vector<std::int64_t>(2 * mine, std::int64_t(n * (n + 1) / 2)));
    }
  });
}

// The list has operations in place and out of place, of several types, with factors for integers and for floats.
TEST_P(SchedulerInWorldsOf, AListIsReducedAsOne) {
  run_agendas(GetParam(), [](World& world, Scheduler& scheduler) {
    const int n = world.size();
    std::vector<float> a{1, 2}, b{3};
    std::vector<std::int32_t> c{3, -5};
    std::vector<float> a_sum(2), b_sum(1);
    std::vector<std::int32_t> c_sum(2);
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce,
                                      .inputs = {view_of(a), view_of(c), view_of(b)},
                                      .outputs = {view_of(a_sum), view_of(c_sum), view_of(b_sum)},
                                      .prescale = 0.5,
                                      .postscale = 3}));
    EXPECT_THAT(a_sum, ElementsAre(1.5F * float(n), 3.0F * float(n)));
    EXPECT_THAT(b_sum, ElementsAre(4.5F * float(n)));
    EXPECT_THAT(c_sum, ElementsAre(3 * n, -6 * n)) << "each is truncated before the sum";
    EXPECT_THAT(a, ElementsAre(1, 2));
    EXPECT_THAT(c, ElementsAre(3, -5));
    wait(scheduler,
         scheduler.submit(
             {.verb = Verb::allreduce, .inputs = {view_of(c)}, .op = Op::average, .prescale = 2.5, .postscale = 0.5}));
    EXPECT_THAT(c, ElementsAre(3, -6)) << "7 and -12 before the postscale";
  });
}

TEST_P(SchedulerInWorldsOf, WhatDiffersFailsAlone) {
  run_agendas(GetParam(), [](World& world, Scheduler& scheduler) {
    if (world.size() == 1) return;
    std::vector<float> tensor(world.rank() == 1 ? 5 : 4, 1);
    for (int times = 0; times < 3; times++) {
      const auto odd = scheduler.submit({.verb = Verb::allreduce, .name = "x", .inputs = {view_of(tensor)}});
      std::vector<float> good{1};
      wait(scheduler, scheduler.submit({.verb = Verb::allreduce, .name = "y", .inputs = {view_of(good)}}));
      EXPECT_THAT(good, ElementsAre(float(world.size())));
      EXPECT_TRUE(scheduler.wait(*odd));
      ASSERT_TRUE(odd->error());
      EXPECT_EQ(odd->error()->code(), ErrorCode::mismatch);
      EXPECT_EQ(odd->error()->rank(), world.size() == 2 ? -1 : 1);
      EXPECT_THAT(odd->error()->what(), HasSubstr("allreduce 'x': rank 0 has shape (4,), rank 1 has (5,)"));
      EXPECT_THAT(tensor, Each(1));
      EXPECT_EQ(world.failure(), std::nullopt);
    }
  });
}

TEST(Scheduler, ABarrierOvertakesAndNamesAreTakenUntilSeen) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<float> tensor{1};
    const NamedCall x{.verb = Verb::allreduce, .name = "x", .inputs = {view_of(tensor)}};
    Scheduler::Handle operation;
    if (world.rank() == 0) operation = scheduler.submit(x);
    wait(scheduler, scheduler.submit({.verb = Verb::barrier}, true));
    if (world.rank() == 1) operation = scheduler.submit(x);
    world.barrier();
    try {
      scheduler.submit(x);
      ADD_FAILURE() << "the name was free";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    }
    wait(scheduler, operation);
    const auto second = scheduler.submit(x);
    EXPECT_TRUE(scheduler.done(*operation) && scheduler.wait(*operation)) << "again, which must not free the name";
    EXPECT_THROW(scheduler.submit(x), Error);
    wait(scheduler, second);
    EXPECT_THAT(tensor, ElementsAre(4));
  });
}

TEST_P(SchedulerInWorldsOf, JoinedRanksContributeWhatChangesNothing) {
  run_agendas(GetParam(), [](World& world, Scheduler& scheduler) {
    const int n = world.size();
    for (int times = 0; times < 2; times++) {
      for (int step = 0; step <= world.rank(); step++) {
        std::vector<float> sum{1}, mean{1}, least{5}, product{2};
        std::vector<bf16> most{bf16(-3)};
        std::vector<std::uint16_t> bits{0x0ff0};
        const auto reduce = [&](ArrayView array, Op op) {
          return scheduler.submit({.verb = Verb::allreduce, .inputs = {std::move(array)}, .op = op, .prescale = 1});
        };
        for (const auto& each : {reduce(view_of(sum), Op::sum), reduce(view_of(mean), Op::average),
                                 reduce(view_of(least), Op::min), reduce(view_of(most), Op::max),
                                 reduce(view_of(product), Op::product), reduce(view_of(bits), Op::bit_and)})
          wait(scheduler, each);
        const int active = n - step;  // ranks that have not joined
        EXPECT_THAT(sum, ElementsAre(float(active)));
        EXPECT_THAT(mean, ElementsAre(float(active) / float(n)));
        EXPECT_THAT(least, ElementsAre(5));
        EXPECT_EQ(float(most[0]), -3);
        EXPECT_THAT(product, ElementsAre(float(1 << active)));
        EXPECT_THAT(bits, ElementsAre(0x0ff0));
      }
      if (world.rank() == n - 1 && n > 1) {
        std::vector<float> tensor{1};
        const auto refused = scheduler.submit({.verb = Verb::allgather, .inputs = {view_of(tensor)}});
        EXPECT_TRUE(scheduler.wait(*refused));
        ASSERT_TRUE(refused->error());
        EXPECT_THAT(refused->error()->what(), HasSubstr("has joined, so it has no tensor to give"));
      }
      const auto join = scheduler.submit({.verb = Verb::join}, times == 0);
      wait(scheduler, join);
      EXPECT_EQ(join->last(), n - 1);
    }
  });
}

TEST(Scheduler, AJoinIsDoneWhenOthersNeedThisRankNoMore) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> tensor(std::size_t(4) << 20, 1);
    Scheduler::Handle last;
    if (world.rank() == 0) last = scheduler->submit({.verb = Verb::allreduce, .inputs = {view_of(tensor)}});
    wait(*scheduler, scheduler->submit({.verb = Verb::join}, true));
    if (!last) return;  // the world of rank 1 ends
    wait(*scheduler, last);
    EXPECT_THAT(tensor, Each(1));
  });
}

TEST(Scheduler, WaitingReturnsAfterItsTime) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<float> tensor(100'000, 1);
    const NamedCall x{.verb = Verb::allreduce, .name = "x", .inputs = {view_of(tensor)}};
    if (world.rank() == 0) {
      const auto operation = scheduler.submit(x, true);
      for (int k = 0; k < 3; k++) EXPECT_FALSE(scheduler.wait(*operation, steady_clock::now() + milliseconds(20)));
      EXPECT_EQ(scheduler.describe(*operation), "allreduce 'x' waits for rank 1");
      world.barrier();
      wait(scheduler, operation);
    } else {
      world.barrier();
      wait(scheduler, scheduler.submit(x, true));
    }
    EXPECT_THAT(tensor, Each(2));
  });
}

TEST(Scheduler, TwoSchedulersAndTheGroupDoNotWaitForEachOther) {
  run_world(3, [](World& world) {
    const auto one = Scheduler::make(world), other = Scheduler::make(world);
    std::vector<float> a{1}, b{1}, c{1};
    const auto first = [&] { return one->submit({.verb = Verb::allreduce, .inputs = {view_of(a)}}); };
    const auto second = [&] { return other->submit({.verb = Verb::allreduce, .inputs = {view_of(b)}}); };
    const bool swaps = world.rank() == 1;
    const auto early = swaps ? second() : first();
    world.allreduce(c);
    const auto late = swaps ? first() : second();
    wait(swaps ? *one : *other, late);
    wait(swaps ? *other : *one, early);
    EXPECT_THAT(a, ElementsAre(3));
    EXPECT_THAT(b, ElementsAre(3));
    EXPECT_THAT(c, ElementsAre(3));
    world.barrier();
  });
}

TEST(Scheduler, WrongArgumentsAreRefusedBeforeAnythingIsSent) {
  run_agendas(2, [](World&, Scheduler& scheduler) {
    std::vector<float> tensor(3), other(4);
    std::vector<int> whole_numbers(3);
    std::vector<bool> no;
    const ArrayView good = view_of(tensor);
    const auto refused = [&](NamedCall request) {
      try {
        scheduler.submit(std::move(request));
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
        return e.message();
      }
      return std::string("nothing");
    };
    EXPECT_THAT(refused({.verb = Verb::allreduce}), HasSubstr("there must be a tensor"));
    EXPECT_THAT(refused({.verb = Verb::allreduce, .inputs = {{nullptr, {3}}}}), HasSubstr("allreduce"));
    EXPECT_THAT(refused({.verb = Verb::allreduce, .inputs = {good}, .outputs = {view_of(other)}}), HasSubstr("3"));
    EXPECT_THAT(refused({.verb = Verb::allreduce, .inputs = {good}, .op = Op::bit_or}), HasSubstr("bit_or"));
    EXPECT_THAT(refused({.verb = Verb::allreduce, .inputs = {good}, .prescale = 1.0 / 0.0}),
                HasSubstr("the prescale inf is not finite"));
    EXPECT_THAT(refused({.verb = Verb::allreduce, .inputs = {view_of(whole_numbers)}, .postscale = -1.0 / 0.0}),
                HasSubstr("the postscale -inf is not finite"));
    EXPECT_THAT(refused({.verb = Verb::broadcast, .inputs = {good}, .root = 2}), HasSubstr("root"));
    EXPECT_THAT(refused({.verb = Verb::broadcast, .inputs = {good}, .root = 0, .prescale = 2}), HasSubstr("factors"));
    EXPECT_THAT(refused({.verb = Verb::alltoall, .inputs = {good}}), HasSubstr("cannot be divided"));
    EXPECT_THAT(refused({.verb = Verb::alltoall, .inputs = {good}, .splits = {1}}), HasSubstr("1 splits for 2"));
    EXPECT_THAT(refused({.verb = Verb::alltoall, .inputs = {good}, .splits = {3, 1}}), HasSubstr("more than"));
    EXPECT_THAT(refused({.verb = Verb::alltoall, .inputs = {good}, .splits = {1, 1}}), HasSubstr("2 of the 3"));
    ArrayView scalar = good;
    scalar.shape.clear();
    EXPECT_THAT(refused({.verb = Verb::reduce_scatter, .inputs = {scalar}}), HasSubstr("first dimension"));
    EXPECT_THAT(refused({.verb = Verb::allgather, .inputs = {{tensor.data(), {1ULL << 40, 1ULL << 40}}}}),
                HasSubstr("allgather"));
    EXPECT_THAT(refused({.verb = Verb::broadcast, .inputs = std::vector((1 << 20) + 1, good), .root = 0}),
                HasSubstr("1048577 tensors; at most 1048576 are allowed"));
    EXPECT_THAT(refused({.verb = Verb::allreduce, .inputs = {{tensor.data(), std::vector<std::uint64_t>(1025, 1)}}}),
                HasSubstr("1025 dimensions; at most 1024 are allowed"));
  });
}

// Data loaders are children made by fork(), and may write to the tensors that they inherit.
TEST(Scheduler, AChildMadeByForkDoesNotShareLargeOutputs) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<float> mine(50'000, float(world.rank()));
    const auto gathered = scheduler.submit({.verb = Verb::allgather, .name = "x", .inputs = {view_of(mine)}}, true);
    wait(scheduler, gathered);
    const Tensor made = gathered->outputs()[0].tensor();
    const int status = in_child([&made] {
      std::memset(made.data, 1, made.bytes());
      return 0;
    });
    EXPECT_EQ(status, 0);
    const std::vector<float> all = output<float>(*gathered);
    EXPECT_THAT(std::span(all).first(50'000), testing::Each(0));
    EXPECT_THAT(std::span(all).last(50'000), testing::Each(1));
  });
}

}  // namespace
}  // namespace anello::agenda
