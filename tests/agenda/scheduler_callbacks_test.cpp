// Callbacks of named operations: each is called once, when its operation has succeeded or failed.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/agenda/schedulers.hpp"

namespace anello::agenda {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::HasSubstr;

// Collects the reports of one rank's callbacks.
class Calls {
 public:
  std::function<void(const Error*)> note(std::string what) {
    return [this, what = std::move(what)](const Error* error) {
      const std::lock_guard lock(mutex_);
      all_.push_back(error ? text(what, ": ", error->what()) : what);
      changed_.notify_all();
    };
  }
  // Waits until there are `count` reports.
  std::vector<std::string> sorted(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, seconds(60), [&] { return all_.size() >= count; })) << all_.size();
    std::vector<std::string> all = all_;
    std::ranges::sort(all);
    return all;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

Scheduler::Handle allreduce(Scheduler& scheduler, std::string_view name, std::vector<float>& values) {
  return scheduler.submit({.verb = Verb::allreduce, .name = name, .inputs = {view_of(values)}});
}

// No rank waits, and each rank has its own order.
TEST(SchedulerCallbacks, ComeInAnyOrderOfTheRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_agendas(ranks, [&](World& world, Scheduler& scheduler) {
      constexpr std::size_t kCount = 30;
      std::vector<std::vector<float>> tensors;
      for (std::size_t k = 0; k < kCount; k++) tensors.emplace_back(k * k * 10, 1.0f);
      std::vector<std::size_t> order(kCount);
      for (std::size_t k = 0; k < kCount; k++) order[k] = k;
      std::ranges::shuffle(order, std::mt19937(unsigned(world.rank())));
      Calls calls;
      for (const std::size_t k : order) {
        const auto operation = allreduce(scheduler, text(k), tensors[k]);
        scheduler.when_done(operation, calls.note(text(k)));
        if (k % 3 == 0) scheduler.abandon(*operation);
      }
      EXPECT_EQ(calls.sorted(kCount).size(), kCount);
      for (const auto& tensor : tensors) EXPECT_THAT(tensor, Each(float(world.size())));
    });
  }
}

TEST(SchedulerCallbacks, MayEndTheAgendaWhileTheirThreadWaits) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    const auto first = scheduler->submit({.verb = Verb::barrier, .name = "first"}, true);
    scheduler->when_done(first, [&](const Error*) { scheduler->close(); });
    const auto never = scheduler->submit({.verb = Verb::barrier, .name = text("never ", world.rank())}, true);
    EXPECT_TRUE(scheduler->wait(*never));
    EXPECT_EQ(never->error()->code(), ErrorCode::aborted) << never->error()->what();
    EXPECT_EQ(first->error(), std::nullopt);
    world.barrier();
  });
}

// Covers every verb, with outputs that this rank makes, several types in one operation, and factors of integers.
TEST(SchedulerCallbacks, FollowTheResults) {
  run_agendas(3, [](World& world, Scheduler& scheduler) {
    std::vector<float> a{1, 2}, gathered{float(world.rank())};
    std::vector<int> b{2, 4, 6}, scattered{1, 1, 1};
    std::vector<int> none;
    Calls calls;
    std::vector<Scheduler::Handle> all;
    const auto submit = [&](NamedCall request) {
      const std::string verb(name(request.verb));
      all.push_back(scheduler.submit(std::move(request)));
      scheduler.when_done(all.back(), calls.note(verb));
    };
    submit(
        {.verb = Verb::allreduce, .inputs = {view_of(a), view_of(b), view_of(none)}, .prescale = 0.5, .postscale = 2});
    submit({.verb = Verb::allgather, .inputs = {view_of(gathered)}});
    submit({.verb = Verb::alltoall, .inputs = {view_of(scattered)}, .splits = {1, 1, 1}});
    submit({.verb = Verb::reduce_scatter, .inputs = {view_of(scattered)}});
    submit({.verb = Verb::broadcast, .inputs = {view_of(none)}, .root = 1});
    submit({.verb = Verb::barrier});
    submit({.verb = Verb::join});
    EXPECT_EQ(calls.sorted(7), (std::vector<std::string>{"allgather", "allreduce", "alltoall", "barrier", "broadcast",
                                                         "join", "reduce_scatter"}));
    EXPECT_THAT(a, testing::ElementsAre(3, 6));
    EXPECT_THAT(b, testing::ElementsAre(6, 12, 18));
    EXPECT_THAT(output<float>(*all[1]), testing::ElementsAre(0, 1, 2));
    EXPECT_THAT(output<int>(*all[3]), testing::ElementsAre(3));
  });
}

// The name is free in the callback.
TEST(SchedulerCallbacks, MaySubmitTheNextOperationOfTheName) {
  run_agendas(3, [](World& world, Scheduler& scheduler) {
    constexpr int kTimes = 50;
    std::vector<float> values(1000, 1);
    Calls calls;
    int times = 0;
    std::function<void(const Error*)> again = [&](const Error* error) {
      if (error || ++times == kTimes) return calls.note("last")(error);
      scheduler.when_done(allreduce(scheduler, "x", values), again);
    };
    scheduler.when_done(allreduce(scheduler, "x", values), again);
    EXPECT_EQ(calls.sorted(1), std::vector<std::string>{"last"});
    EXPECT_EQ(times, kTimes);
    EXPECT_THAT(values, Each(std::pow(float(world.size()), float(kTimes))));
  });
}

TEST(SchedulerCallbacks, ReplaceEachOtherAndAreCalledAtOnceIfItIsDone) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<float> values{1};
    Calls calls;
    if (world.rank() == 1) world.recv(values, 0);  // so that the operations are not decided before both exist
    const auto operation = allreduce(scheduler, "x", values);
    scheduler.when_done(operation, calls.note("first"));
    scheduler.when_done(operation, calls.note("second"));
    if (world.rank() == 0) world.send(values, 1);
    wait(scheduler, operation);
    const std::size_t before = calls.sorted(1).size();
    scheduler.when_done(operation, calls.note("third"));
    EXPECT_EQ(calls.sorted(2).size(), before + 1);
    EXPECT_EQ(calls.sorted(2).back(), "third");
    if (world.rank() == 0) {
      EXPECT_EQ(calls.sorted(2).front(), "second");
    }
  });
}

TEST(SchedulerCallbacks, MayNotWait) {
  run_agendas(2, [](World&, Scheduler& scheduler) {
    std::vector<float> values{1};
    Calls calls;
    for (const Verb verb : {Verb::allreduce, Verb::barrier}) {
      NamedCall request{.verb = verb, .name = "x"};
      if (verb == Verb::allreduce) request.inputs = {view_of(values)};
      const auto operation = scheduler.submit(std::move(request));
      scheduler.when_done(operation, [&, operation](const Error*) {
        try {
          scheduler.wait(*operation);
          calls.note("waited")(nullptr);
        } catch (const Error& error) {
          calls.note("refused")(&error);
        }
      });
    }
    EXPECT_THAT(calls.sorted(2), Each(HasSubstr("refused: a callback of asynchronous work may not block")));
  });
}

// The refused operation does not start, and the world goes on.
TEST(SchedulerCallbacks, ReceiveARefusal) {
  run_agendas(2, [](World& world, Scheduler& scheduler) {
    std::vector<float> values(std::size_t(world.rank()) + 2, 1), others{1};
    Calls calls;
    scheduler.when_done(allreduce(scheduler, "x", values), calls.note("x"));
    scheduler.when_done(allreduce(scheduler, "y", others), calls.note("y"));
    const std::vector<std::string> all = calls.sorted(2);
    EXPECT_THAT(all[0], HasSubstr("x: allreduce 'x': rank 0 has shape (2,), rank 1 has (3,)"));
    EXPECT_EQ(all[1], "y");
    EXPECT_THAT(others, Each(2));
  });
}

// When the world fails, one operation is under way or done, and rank 0 has not decided another one.
TEST(SchedulerCallbacks, ReceiveTheVerdictOfAWorldThatFails) {
  const std::vector<Told> told = told_on_all_ranks(3, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> values(100'000, 1), never{1};
    Calls calls;
    scheduler->when_done(allreduce(*scheduler, "x", values), calls.note("x"));
    scheduler->when_done(allreduce(*scheduler, text("of rank ", world.rank()), never), calls.note("never"));
    world.barrier();
    if (world.rank() == 2) world.abort("enough");
    const std::string last = calls.sorted(2)[0];
    scheduler->close();
    throw Error(ErrorCode::file, last);
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_THAT(each.error->what(), HasSubstr("never: "));
    EXPECT_THAT(each.error->what(), HasSubstr("enough"));
  }
}

// Rank 1 leaves as soon as its callback is called.
TEST(SchedulerCallbacks, OfAJoinComeWhenOthersNeedThisRankNoMore) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> values(std::size_t(4) << 20, 1);
    Calls calls;
    if (world.rank() == 0) scheduler->when_done(allreduce(*scheduler, "x", values), calls.note("x"));
    scheduler->when_done(scheduler->submit({.verb = Verb::join}), calls.note("join"));
    if (world.rank() == 0) {
      EXPECT_THAT(calls.sorted(2), testing::ElementsAre("join", "x"));
    }
    EXPECT_EQ(calls.sorted(1)[0], "join");
    EXPECT_THAT(values, Each(1));
  });
}

TEST(SchedulerCallbacks, ReceiveTheEndOfTheAgenda) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::vector<float> never{1};
    Calls calls;
    const auto operation = allreduce(*scheduler, text("of rank ", world.rank()), never);
    scheduler->when_done(operation, calls.note("never"));
    world.barrier();
    scheduler->close();
    EXPECT_THAT(calls.sorted(1)[0],
                HasSubstr("the agenda was closed, or this rank's world ended, before the operation was done"));
    EXPECT_THROW(allreduce(*scheduler, "later", never), Error);
    world.barrier();  // otherwise a rank that leaves the world could end the other rank's operation
  });
}

// The callback has the last reference to the scheduler, which then ends on a thread of the same world.
TEST(SchedulerCallbacks, MayHaveTheLastHandle) {
  run_world(2, [](World& world) {
    std::vector<float> values(1000, 1);
    Calls calls;
    auto scheduler = Scheduler::make(world);
    Scheduler& its = *scheduler;
    const auto operation = allreduce(its, "x", values);
    its.when_done(operation, [&, last = std::move(scheduler)](const Error* error) { calls.note("x")(error); });
    EXPECT_EQ(calls.sorted(1).size(), 1u);
    world.barrier();
  });
}

}  // namespace
}  // namespace anello::agenda
