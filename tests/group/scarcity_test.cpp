// A rank's memory runs out at any place of an operation, and all later allocations fail too. Every operation ends on
// all ranks with the right result, or with an error that names this rank. The rank also leaves groups and the world as
// usual. Also tests a rank that cannot start the thread for asynchronous work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ring/group/planner.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/worlds.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;

constexpr int kPoor = 1;  // this rank
constexpr std::size_t kElements = 30'000;

void wait_for(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::sleep_for(milliseconds(1));
}

template <class Call>
std::exception_ptr thrown_by(Call call) {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void expect_that_all_blame_the_poor(const std::vector<Told>& all) {
  for (const Told& told : all) {
    if (!told.error) continue;
    EXPECT_EQ(told.error->rank(), kPoor) << told.error->what();
  }
}

// Calls trial(plan) for each place where memory can run out. trial() returns whether memory has run out.
void at_each_place(const std::function<bool(const faults::Plan&)>& trial) {
  int place = 0;
  while (trial({.memory = place, .for_ever = true})) place++;
  EXPECT_GT(place, 0);
}

bool fails_in_a_blocking_call(const faults::Plan& plan) {
  bool happened = false;
  expect_that_all_blame_the_poor(told_on_all_ranks(2, [&](World& world) {
    std::vector<float> x(kElements, 1), y(kElements, 1);
    const std::vector<Tensor> list{x, y};
    world.barrier();
    if (world.rank() != kPoor) return world.allreduce(list);
    faults::plan(plan);
    const std::exception_ptr thrown = thrown_by([&] { world.allreduce(list); });
    happened = faults::plan({});
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      world.abort("no memory is left");
      EXPECT_THROW(world.barrier(), Error);
    }
  }));
  return happened;
}

TEST(Scarcity, ABlockingCallEndsAndLeavesNothingInTheQueue) {
  at_each_place(fails_in_a_blocking_call);
}

bool fails_on_the_progress_thread(const faults::Plan& plan) {
  std::atomic<bool> planned = false, ended = false;
  bool happened = false;
  expect_that_all_blame_the_poor(told_on_all_ranks(2, [&](World& world) {
    std::vector<float> x(kElements, 1);
    if (world.rank() != kPoor) wait_for(planned);
    Work first = world.barrier_async(), second = world.allreduce_async(x);
    if (world.rank() == kPoor) {
      first.when_done([&](const Error*) { faults::plan(plan); });
      second.when_done([&](const Error*) {
        happened = faults::plan({});
        ended = true;
      });
      planned = true;
      wait_for(ended);
    }
    second.wait();
  }));
  return happened;
}

TEST(Scarcity, TheProgressThreadLives) {
  at_each_place(fails_on_the_progress_thread);
}

// The poor rank neither leaves nor makes another call. Its memory runs out between two operations, in the code that
// carries out operations.
TEST(Scarcity, TheOthersAreInformedAtOnce) {
  std::atomic<bool> planned = false, poor = false, ended = false, over = false;
  const std::vector<Told> all = told_on_all_ranks(2, [&](World& world) {
    std::vector<float> x(kElements, 1);
    if (world.rank() != kPoor) {
      wait_for(planned);
      world.barrier();
      wait_for(poor);
      const std::exception_ptr thrown = thrown_by([&] { world.allreduce(x); });
      over = true;
      if (thrown) std::rethrow_exception(thrown);
      return;
    }
    Work first = world.barrier_async(), second = world.allreduce_async(x);
    first.when_done([&](const Error*) {
      faults::plan({.memory = 0, .for_ever = true});
      poor = true;
    });
    second.when_done([&](const Error*) {
      faults::plan({});
      ended = true;
    });
    planned = true;
    wait_for(ended);
    wait_for(over);
    second.wait();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::aborted) << told.error->what();
    EXPECT_THAT(told.error->what(), testing::HasSubstr("out of memory"));
    EXPECT_LT(told.after, milliseconds(500) + told.lateness);
  }
  expect_that_all_blame_the_poor(all);
}

void expect_that_it_left(const std::optional<Error>& error, const std::string& what) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rank_left) << error->what();
  EXPECT_EQ(error->rank(), kPoor);
  EXPECT_THAT(error->what(), testing::HasSubstr("left " + what));
}

bool fails_while_it_leaves_a_group(const faults::Plan& plan) {
  std::atomic<bool> left = false, over = false;
  bool happened = false;
  const std::vector<Told> all = told_on_all_ranks(2, [&](World& world) {
    std::optional<Group> group = world.group({0, 1});
    float x = 1;
    group->allreduce({&x, 1});
    if (world.rank() == kPoor) {
      group->send({&x, 1}, 0);
      faults::plan(plan);
      group.reset();
      happened = faults::plan({});
      left = true;
      return wait_for(over);
    }
    group->recv({&x, 1}, kPoor);
    wait_for(left);
    const std::exception_ptr thrown = thrown_by([&] { group->barrier(); });
    over = true;
    if (thrown) std::rethrow_exception(thrown);
  });
  expect_that_it_left(all[0].error, "group (0, 1) after 1 operations");
  return happened;
}

bool fails_while_it_leaves_the_world(const faults::Plan& plan) {
  bool happened = false;
  const std::vector<Told> all = told_on_all_ranks(2, [&](World& world) {
    Group group = world.group({0, 1});
    group.barrier();
    if (world.rank() != kPoor) return world.barrier();
    {
      const World ends = std::move(world);
      faults::plan(plan);
    }
    happened = faults::plan({});
  });
  expect_that_it_left(all[0].error, "the world after 0 operations");
  return happened;
}

TEST(Scarcity, ARankLeavesAllTheSame) {
  at_each_place(fails_while_it_leaves_a_group);
  at_each_place(fails_while_it_leaves_the_world);
}

// The refused operation uses up no number: the next operation gets this number.
TEST(Scarcity, WorkWithoutAThreadIsRefusedBeforeItIsQueued) {
  run_world(2, [&](World& world) {
    std::vector<float> x(6, 1), y(6), z(1);
    const std::vector<std::uint64_t> counts{3, 3};
    const std::vector<std::function<Work()>> calls = {[&] { return world.allreduce_async(x, y); },
                                                      [&] { return world.alltoall_async(x, y, counts, counts); },
                                                      [&] { return world.send_async(z, 1 - world.rank()); }};
    for (const auto& call : calls) {
      if (world.rank() != kPoor) continue;
      faults::plan({.thread = 0});
      EXPECT_THAT([&] { call(); },
                  testing::ThrowsMessage<Error>(testing::HasSubstr("no thread for asynchronous work")));
      EXPECT_TRUE(faults::plan({}));
    }
    world.allreduce_async(x, y).wait();
    EXPECT_THAT(y, testing::Each(2));
    world.alltoall_async(x, y, counts, counts).wait();
    EXPECT_THAT(y, testing::Each(1));
  });
}

bool fails_while_a_group_is_made(const faults::Plan& plan) {
  bool happened = false;
  expect_that_all_blame_the_poor(told_on_all_ranks(2, [&](World& world) {
    if (world.rank() == kPoor) faults::plan(plan);
    std::optional<Group> group;
    const std::exception_ptr thrown = thrown_by([&] { group.emplace(world.group({0, 1})); });
    if (world.rank() == kPoor) happened = faults::plan({});
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      world.abort("no memory is left");
    }
    (group ? *group : world).barrier();
  }));
  return happened;
}

TEST(Scarcity, NoRankWaitsForAGroupThatIsNotMade) {
  at_each_place(fails_while_a_group_is_made);
}

bool fails_while_work_is_submitted(const faults::Plan& plan) {
  bool happened = false;
  run_world(2, [&](World& world) {
    std::vector<float> x(kElements, 1);
    world.barrier();
    Work work;
    if (world.rank() == kPoor) {
      faults::plan(plan);
      const std::exception_ptr thrown = thrown_by([&] { work = world.allreduce_async(x); });
      happened = faults::plan({});
      if (thrown) work = world.allreduce_async(x);
    } else {
      work = world.allreduce_async(x);
    }
    work.wait();
    world.barrier();
    EXPECT_THAT(x, testing::Each(2));
  });
  return happened;
}

TEST(Scarcity, WorkThatIsNotSubmittedIsNotQueued) {
  at_each_place(fails_while_work_is_submitted);
}

TEST(Scarcity, PlansThatOperationsUseAreNotFreed) {
  group::Planner planner(0, 0, {.world = 3}, {}, {}, {}, 0);
  planner.plan({.kind = Kind::allreduce, .dtype = DType::f32, .count = 100});
  const std::uint64_t before = planner.bytes();
  faults::plan({.memory = 0});
  EXPECT_THROW(planner.tidy(0, 1), std::bad_alloc);
  EXPECT_TRUE(faults::plan({}));
  EXPECT_EQ(planner.bytes(), before);
}

}  // namespace
}  // namespace anello
