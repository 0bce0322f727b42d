// Named operations that cannot be carried out, and their errors.
#include <thread>

#include "ring/base/text.hpp"
#include "tests/agenda/schedulers.hpp"

namespace anello::agenda {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(Scheduler, AWorldThatFailsFailsWhatWaits) {
  const std::vector<Told> told = told_on_all_ranks(4, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> tensor{1};
    const auto operation = scheduler->submit({.verb = Verb::allreduce, .name = "x", .inputs = {view_of(tensor)}});
    if (world.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(50));
      world.abort("enough");
    }
    const auto never =
        scheduler->submit({.verb = Verb::allgather, .name = text(world.rank()), .inputs = {view_of(tensor)}});
    EXPECT_TRUE(scheduler->wait(*never));
    EXPECT_TRUE(scheduler->wait(*operation));  // an operation under way uses the tensor until the end
    throw Error(never->error().value_or(Error(ErrorCode::file, "nothing")));
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::aborted) << each.error->what();
    EXPECT_EQ(each.error->rank(), 2);
    EXPECT_THAT(each.error->what(), HasSubstr("enough"));
  }
}

TEST(Scheduler, AnOperationThatNeverGetsAllRanksEndsAtTheLimit) {
  Settings settings = Settings::from_environment();
  settings.operation_limit = milliseconds(2000);  // a busy machine may start ranks late
  const std::vector<Told> told = told_on_all_ranks(
      3,
      [](World& world) {
        const auto scheduler = Scheduler::make(world);
        std::vector<float> tensor{1};
        const std::string own = world.rank() == 2 ? "y" : "x";
        wait(*scheduler, scheduler->submit({.verb = Verb::allreduce, .name = own, .inputs = {view_of(tensor)}}));
      },
      settings);
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_EQ(each.error->code(), ErrorCode::timed_out) << each.error->what();
    EXPECT_THAT(each.error->what(), HasSubstr("allreduce 'x' waits for rank 2"));
    EXPECT_THAT(each.error->what(), HasSubstr("(ANELLO_OPERATION_LIMIT)"));
  }
}

// A rank leaves while others need it: once with, and once without a connection between it and them.
TEST(Scheduler, ARankThatLeavesTooEarlyIsNamed) {
  for (const bool connected : {false, true}) {
    const std::vector<Told> told = told_on_all_ranks(3, [&](World& world) {
      const auto scheduler = Scheduler::make(world);
      std::vector<float> tensor{1};
      if (connected) wait(*scheduler, scheduler->submit({.verb = Verb::allreduce, .inputs = {view_of(tensor)}}));
      if (world.rank() == 2) {
        scheduler->close();
        return;
      }
      wait(*scheduler, scheduler->submit({.verb = Verb::allreduce, .name = "x", .inputs = {view_of(tensor)}}));
    });
    for (const int rank : {0, 1}) {
      ASSERT_TRUE(told[std::size_t(rank)].error);
      EXPECT_EQ(told[std::size_t(rank)].error->code(), ErrorCode::rank_left) << told[std::size_t(rank)].error->what();
      EXPECT_EQ(told[std::size_t(rank)].error->rank(), 2);
    }
  }
}

// When rank 0 submits, it already has the other rank's report, so it decides at once. When rank 0 leaves, it has not
// sent the decision yet.
TEST(Scheduler, ADecisionReachesTheOthersBeforeThisRankLeaves) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    Scheduler::Handle last;
    if (world.rank() == 1) last = scheduler->submit({.verb = Verb::barrier, .name = "last"});
    wait(*scheduler, scheduler->submit({.verb = Verb::barrier, .name = "first"}));
    if (last) return wait(*scheduler, last);
    last = scheduler->submit({.verb = Verb::barrier, .name = "last"}, true);
    EXPECT_TRUE(last->done());
  });
}

TEST(Scheduler, ADecisionReachesTheOthersThoughThisRankOnlyLooks) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    Scheduler::Handle last;
    if (world.rank() == 1) last = scheduler->submit({.verb = Verb::barrier, .name = "last"});
    wait(*scheduler, scheduler->submit({.verb = Verb::barrier, .name = "first"}));
    if (world.rank() == 0) last = scheduler->submit({.verb = Verb::barrier, .name = "last"}, true);
    if (world.rank() == 0) {
      EXPECT_TRUE(scheduler->done(*last));
    } else if (!scheduler->wait(*last, std::chrono::steady_clock::now() + std::chrono::seconds(60))) {
      world.abort("the decision has not come");
    }
    world.barrier();
  });
}

TEST(Scheduler, WhatIsNotDecidedEndsWithTheScheduler) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> tensor{1};
    if (world.rank() == 0) {
      const auto operation = scheduler->submit({.verb = Verb::allreduce, .inputs = {view_of(tensor)}});
      std::thread waiter([&] {
        EXPECT_TRUE(scheduler->wait(*operation));
        EXPECT_EQ(operation->error()->code(), ErrorCode::aborted);
      });
      std::this_thread::sleep_for(milliseconds(20));
      scheduler->close();
      waiter.join();
      EXPECT_THROW(scheduler->submit({.verb = Verb::barrier}), Error);
    }
    world.barrier();
  });
}

}  // namespace
}  // namespace anello::agenda
