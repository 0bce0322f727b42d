// Named operations on a rank that has no memory left, or whose program makes a mistake of its own. The operations end
// on all ranks, and no operation is mistaken for another.
#include <atomic>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/agenda/schedulers.hpp"
#include "tests/support/faults.hpp"

namespace anello::agenda {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kElements = 32'768;  // each rank's half, or a copy, is a large allocation
constexpr seconds kHang{60};               // longer than any operation in this file takes

// Returns the operation's error; `timed_out` if the operation did not end.
std::optional<Error> outcome(World& world, Scheduler& scheduler, const Scheduler::Handle& operation) {
  if (scheduler.wait(*operation, steady_clock::now() + kHang)) return operation->error();
  world.abort("an operation hangs");
  EXPECT_TRUE(scheduler.wait(*operation));
  return Error(ErrorCode::timed_out, "it hangs");
}

NamedCall reduce_scatter_of(std::vector<int>& values, std::string_view name, double prescale = 1) {
  return {.verb = Verb::reduce_scatter, .name = name, .inputs = {view_of(values)}, .prescale = prescale};
}

// One rank has no memory for x. Its y must not be reduced with the other rank's x.
TEST(SchedulerFaults, WhatOneRankHasNoMemoryForFailsAlone) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<int> x(kElements, 1), y(kElements, 100);
    if (world.rank() == 1) {
      faults::plan({.large_memory = 0, .for_ever = true});
      EXPECT_THROW(scheduler.submit(reduce_scatter_of(x, "x", 2), true), std::bad_alloc);
      EXPECT_TRUE(faults::plan({}));
    } else {
      const auto error = outcome(world, scheduler, scheduler.submit(reduce_scatter_of(x, "x", 2), true));
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
      EXPECT_EQ(error->rank(), 1);
      EXPECT_THAT(error->what(), HasSubstr("reduce_scatter 'x': rank 1 cannot take part: "));
      EXPECT_THAT(error->what(), HasSubstr("there is no memory for a tensor of 65536 bytes"));
    }
    const auto second = scheduler.submit(reduce_scatter_of(y, "y", 2), true);
    ASSERT_EQ(outcome(world, scheduler, second), std::nullopt);
    EXPECT_THAT(output<int>(*second), Each(400));
    EXPECT_THAT(y, Each(100));
  });
}

// The output's size is determined when all ranks have submitted.
TEST(SchedulerFaults, AnOutputThatOneRankCannotMakeEndsTheWorld) {
  const std::vector<Told> told = told_on_all_ranks(3, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> x(kElements, 1);
    if (world.rank() == 1) faults::plan({.large_memory = 0, .for_ever = true});
    const auto first = scheduler->submit({.verb = Verb::allgather, .name = "x", .inputs = {view_of(x)}}, true);
    const auto error = outcome(world, *scheduler, first);
    faults::plan({});
    if (error) throw Error(*error);
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::aborted) << each.error->what();
    EXPECT_EQ(each.error->rank(), 1) << each.error->what();
    EXPECT_THAT(each.error->what(), HasSubstr("allgather 'x' cannot begin: "));
  }
}

// Rank 1 runs out of memory while it waits, and then cannot even allocate the text of an error. Rank 1 may leave before
// its control plane has reported the error.
TEST(SchedulerFaults, ARankWithoutAnyMemoryEndsWhatItWaitsFor) {
  for (const int place : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    SCOPED_TRACE(place);
    const std::vector<Told> told = told_on_all_ranks(2, [&](World& world) {
      const auto scheduler = Scheduler::make(world);
      std::vector<float> x(kElements, 1);
      const auto operation = scheduler->submit({.verb = Verb::allgather, .name = "x", .inputs = {view_of(x)}}, true);
      std::atomic<int> calls = 0;
      scheduler->when_done(operation, [&](const Error*) { calls++; });
      if (world.rank() == 1) faults::plan({.memory = place, .for_ever = true});
      const bool ended = scheduler->wait(*operation, steady_clock::now() + kHang);
      EXPECT_EQ(faults::plan({}), world.rank() == 1);
      EXPECT_TRUE(ended);
      if (!ended) world.abort("an operation hangs");
      for (const auto end = steady_clock::now() + kHang; calls == 0 && steady_clock::now() < end;)
        std::this_thread::sleep_for(milliseconds(1));
      EXPECT_EQ(calls, 1);
      if (const auto error = operation->error()) throw Error(*error);
    });
    for (const Told& each : told) {
      ASSERT_TRUE(each.error);
      EXPECT_EQ(each.error->rank(), 1) << each.error->what();
    }
  }
}

// join() itself carries out the decision that follows from the join.
TEST(SchedulerFaults, ARankThatJoinsWithoutMemoryEndsTheWorld) {
  const std::vector<Told> told = told_on_all_ranks(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> x(kElements, 1), never{1};
    if (world.rank() == 1) {
      const auto first = scheduler->submit({.verb = Verb::allreduce, .name = "x", .inputs = {view_of(x)}});
      world.barrier();
      if (const auto error = outcome(world, *scheduler, first)) throw Error(*error);
      return;
    }
    const auto listens = scheduler->submit({.verb = Verb::allreduce, .name = "never", .inputs = {view_of(never)}});
    world.barrier();
    EXPECT_FALSE(scheduler->wait(*listens, steady_clock::now() + milliseconds(200)));
    faults::plan({.large_memory = 0, .for_ever = true});
    const auto join = scheduler->submit({.verb = Verb::join}, true);
    const auto error = outcome(world, *scheduler, join);
    faults::plan({});
    if (error) throw Error(*error);
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::aborted) << each.error->what();
    EXPECT_EQ(each.error->rank(), 0) << each.error->what();
  }
}

// Two ranks start different operations as the next one of the group. How this came about does not matter.
TEST(SchedulerFaults, OperationsOutOfStepAreAMismatchBeforeAnythingMoves) {
  const std::vector<Told> told = told_on_all_ranks(3, [](World& world) {
    std::vector<float> values(1000, float(world.rank()));
    const Agreed agreed{.description = {.verb = Verb::allreduce, .arrays = {{DType::f32, {1000}}}}, .sizes = {}};
    const group::RankAndSize self{world.rank(), world.size()};
    const auto operation = std::make_shared<NamedOperation>(
        NamedCall{.verb = Verb::allreduce, .inputs = {view_of(values)}}, nullptr, self);
    operation->set_key(world.rank() == 1 ? "allreduce 'y'" : "allreduce 'x'");
    operation->prepare(agreed, self, nullptr);
    operation->start(agreed, GroupAccess::queue(world), self);
    operation->decided = true;
    EXPECT_TRUE(operation->wait({}));
    EXPECT_THAT(values, Each(float(world.rank())));
    if (const auto error = operation->error()) throw Error(*error);
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::mismatch) << each.error->what();
    EXPECT_THAT(each.error->what(), HasSubstr("allreduce 'x'"));
    EXPECT_THAT(each.error->what(), HasSubstr("allreduce 'y'"));
  }
}

// One rank refuses the call. The other ranks receive the refusal at once, the numbers of operations without a name stay
// equal, and the rank may repeat the call.
TEST(SchedulerFaults, ACallThatOneRankRefusesFailsOnAllRanks) {
  run_agendas(3, [](World& world, Scheduler& scheduler) {
    for (const std::string_view name : {"", "x"}) {
      std::vector<float> values{1};
      const double factor = world.rank() == 2 ? 1.0 / 0.0 : 1;
      const NamedCall request{.verb = Verb::allreduce, .name = name, .inputs = {view_of(values)}, .postscale = factor};
      if (world.rank() == 2) {
        EXPECT_THROW(scheduler.submit(request), Error);
      } else {
        const auto error = outcome(world, scheduler, scheduler.submit(request));
        ASSERT_TRUE(error);
        EXPECT_EQ(error->code(), ErrorCode::mismatch);
        EXPECT_EQ(error->rank(), 2);
        EXPECT_THAT(error->what(),
                    HasSubstr(text(name.empty() ? "allreduce #0" : "allreduce 'x'",
                                   ": rank 2 cannot take part: allreduce: the postscale inf is not finite")));
      }
      const auto again = scheduler.submit({.verb = Verb::allreduce, .name = name, .inputs = {view_of(values)}}, true);
      ASSERT_EQ(outcome(world, scheduler, again), std::nullopt);
      EXPECT_THAT(values, ElementsAre(3));
      EXPECT_EQ(world.failure(), std::nullopt);
    }
  });
}

// A callback may not wait: the wait is refused, but the operation still goes on, on all ranks.
TEST(SchedulerFaults, ARefusedWaitDoesNotStrandTheOperation) {
  std::atomic<bool> has_callback = false, refused = false;
  run_agendas(2, [&](World& world, Scheduler& scheduler) {
    std::vector<float> values(1000, 1), other{1};
    const auto operation = scheduler.submit({.verb = Verb::allreduce, .name = "x", .inputs = {view_of(values)}}, true);
    while (world.rank() == 1 && !has_callback) std::this_thread::sleep_for(milliseconds(1));
    const Work work = world.allreduce_async(other);
    if (world.rank() == 0) {
      Work(work).when_done([&](const Error*) {
        EXPECT_THROW(scheduler.wait(*operation), Error);
        refused = true;
      });
      has_callback = true;
      while (!refused) std::this_thread::sleep_for(milliseconds(1));
    }
    const auto end = steady_clock::now() + kHang;
    while (!scheduler.done(*operation) && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    ASSERT_TRUE(scheduler.done(*operation));
    EXPECT_THAT(values, Each(2));
  });
}

// The operation goes on without its handle, and its result is still complete.
TEST(SchedulerFaults, AnIntegerResultIsMultipliedWithoutAHandle) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<int> values(1000, 10), other{1};
    auto operation = scheduler.submit(
        {.verb = Verb::allreduce, .name = "x", .inputs = {view_of(values)}, .postscale = 0.5}, world.rank() == 1);
    if (world.rank() == 0) scheduler.abandon(*std::exchange(operation, nullptr));
    if (operation) wait(scheduler, operation);
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce, .name = "later", .inputs = {view_of(other)}}));
    EXPECT_THAT(values, Each(10));
  });
}

TEST(SchedulerFaults, NumbersOfUnnamedOperationsDoNotCollideAfterAJoin) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<float> values{1}, more{1};
    const auto kept = scheduler.submit({.verb = Verb::allreduce, .inputs = {view_of(values)}});
    while (!kept->done()) std::this_thread::sleep_for(milliseconds(1));  // waits without a call of the scheduler
    wait(scheduler, scheduler.submit({.verb = Verb::join}));
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce, .inputs = {view_of(more)}}));
    EXPECT_THAT(more, ElementsAre(float(world.size())));
  });
}

// Other operations go on meanwhile.
TEST(SchedulerFaults, AnOperationThatOneRankNeverSubmitsEndsAtTheLimit) {
  Settings settings = Settings::from_environment();
  settings.operation_limit = milliseconds(2000);
  const std::vector<Told> told = told_on_all_ranks(
      2,
      [](World& world) {
        const auto scheduler = Scheduler::make(world);
        std::vector<float> a{1}, b{1};
        Scheduler::Handle never;
        if (world.rank() == 0)
          never = scheduler->submit({.verb = Verb::allreduce, .name = "A", .inputs = {view_of(a)}});
        for (const auto end = steady_clock::now() + kHang; steady_clock::now() < end;) {
          wait(*scheduler, scheduler->submit({.verb = Verb::allreduce, .name = "B", .inputs = {view_of(b)}}, true));
          std::this_thread::sleep_for(milliseconds(50));
        }
      },
      settings);
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::timed_out) << each.error->what();
    EXPECT_THAT(each.error->what(), HasSubstr("allreduce 'A' waits for rank 1"));
  }
}

}  // namespace
}  // namespace anello::agenda
