// How named operations on GPUs fail and end.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <future>
#include <thread>

#include "tests/gpu/on_named_calls.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::HasSubstr;

class NamedCallsEndBy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, NamedCallsEndBy, ::testing::Values("nccl", "staged"),
                         [](const auto& one) { return one.param; });

// One rank has no plugin. All ranks get the same error, and the world goes on.
TEST(NamedCallsEnd, ThatARankHasNoPluginIsAnErrorOfAll) {
  run_world(2, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    scheduler->use(calls_of(world, {}, world.rank() == 0));
    for (int round = 0; round < 2; round++) {
      const OnGpu tensor(world, {1, 2});
      const auto operation = scheduler->submit(
          {.verb = Verb::allreduce, .name = "a", .inputs = {tensor.view()}, .on_gpu = tensor.place()});
      EXPECT_TRUE(scheduler->wait(*operation));
      ASSERT_TRUE(operation->error());
      EXPECT_EQ(operation->error()->code(), ErrorCode::unsupported);
      EXPECT_THAT(operation->error()->what(), HasSubstr("the plugin is not here"));
    }
    EXPECT_FALSE(world.failure());
    scheduler->close();
  });
}

// One rank dies. The operations for which the others wait on their GPUs must end, and fail.
TEST_P(NamedCallsEndBy, ADeadRankEndsThem) {
  const std::vector<Told> told = told_on_all_ranks(3, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    scheduler->use(calls_of(world, {.backend = GetParam()}));
    const OnGpu tensor(world, std::vector<float>(100, 1));
    for (int step = 0;; step++) {
      const auto operation = scheduler->submit(
          {.verb = Verb::allreduce, .name = "step", .inputs = {tensor.view()}, .on_gpu = tensor.place()});
      if (world.rank() == 1 && step == 3) {
        world.abort("enough");
        fake::wait_for_all();
      }
      try {
        wait(*scheduler, operation);
      } catch (const Error&) {
        scheduler->close();
        throw;
      }
    }
  });
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    EXPECT_THAT(each.error->what(), HasSubstr("enough"));
  }
}

// The world fails while an operation is queued behind slow work. The operation fails too, but only after the device has
// stopped using the operation's tensors.
TEST_P(NamedCallsEndBy, WhatIsUnderWayWhenTheWorldFailsIsWaitedFor) {
  for (const Told& each : told_on_all_ranks(2, [](World& world) {
         const auto scheduler = Scheduler::make(world);
         scheduler->use(calls_of(world, {.backend = GetParam()}));
         const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
         const OnGpu a(world, {1}), b(world, {1}), sum_a(world, {-1}), sum_b(world, {-1});
         fake::queue(stream.get(), [&] {
           while (!world.failure()) std::this_thread::sleep_for(milliseconds(1));
           std::this_thread::sleep_for(milliseconds(50));
         });
         const auto operation = scheduler->submit({.verb = Verb::allreduce,
                                                   .name = "slow",
                                                   .inputs = {a.view(), b.view()},
                                                   .outputs = {sum_a.view(), sum_b.view()},
                                                   .on_gpu = a.place(stream.get())});
         if (world.rank() == 1) {
           std::this_thread::sleep_for(milliseconds(100));  // it is queued by then
           world.abort("enough");
         }
         EXPECT_TRUE(scheduler->wait(*operation));
         EXPECT_TRUE(operation->error());
         const std::vector<float> then = sum_b.values();
         std::this_thread::sleep_for(milliseconds(100));
         EXPECT_EQ(sum_b.values(), then);
         scheduler->close();
         fake::finish(stream.get());
         if (operation->error()) throw Error(*operation->error());
       })) {
    ASSERT_TRUE(each.error);
    EXPECT_THAT(each.error->what(), HasSubstr("enough"));
  }
}

// An error of the device on only one rank ends the world, since the other ranks wait for this rank.
TEST(NamedCallsEnd, AnErrorOfOneRankEndsTheWorld) {
  for (const Told& each : told_on_all_ranks(2, [](World& world) {
         const auto scheduler = Scheduler::make(world);
         scheduler->use(calls_of(world, {.backend = "staged"}, true, world.rank() == 1 ? "copy" : ""));
         const OnGpu a(world, {1}), b(world, {1}), sum_a(world, {0}), sum_b(world, {0});
         const auto operation = scheduler->submit({.verb = Verb::allreduce,
                                                   .inputs = {a.view(), b.view()},
                                                   .outputs = {sum_a.view(), sum_b.view()},
                                                   .on_gpu = a.place()});
         EXPECT_TRUE(scheduler->wait(*operation));
         scheduler->close();
         if (operation->error()) throw Error(*operation->error());
       })) {
    ASSERT_TRUE(each.error) << "rank " << each.rank;
    EXPECT_THAT(each.error->what(), ::testing::AllOf(HasSubstr("GPU 1"), HasSubstr("copying: the fake is broken")));
  }
}

// An agenda ends while one operation is being started and another one waits behind it. Nothing may wait forever. The
// first operation succeeds. The second operation succeeds only if it has already been given to the device.
TEST(NamedCallsEnd, AnAgendaEndsWhileOperationsAreStarted) {
  run_world(1, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    std::promise<void> begun, go_on;
    const Group ranks = world.group({0});
    scheduler->use(std::make_unique<gpu::NamedCalls>(
        ranks, gpu::NamedCalls::Makers{[]() -> const AnelloGpuTable& { return fake::table(); },
                                       [&](std::optional<int>) {
                                         begun.set_value();
                                         go_on.get_future().wait();
                                         return gpus_of(world);
                                       }}));
    const OnGpu a(world, {1}), b(world, {1});
    const auto first = scheduler->submit({.verb = Verb::allreduce, .inputs = {a.view()}, .on_gpu = a.place()});
    const auto second = scheduler->submit({.verb = Verb::allreduce, .inputs = {b.view()}, .on_gpu = b.place()});
    begun.get_future().wait();
    auto waiting = std::async(std::launch::async, [&] { return scheduler->wait(*second); });
    auto closing = std::async(std::launch::async, [&] { scheduler->close(); });
    std::this_thread::sleep_for(milliseconds(50));
    go_on.set_value();
    closing.get();
    EXPECT_TRUE(waiting.get());
    EXPECT_TRUE(scheduler->wait(*first));
    EXPECT_FALSE(first->error()) << first->error()->what();
    EXPECT_TRUE(!second->error() || second->error()->code() == ErrorCode::aborted) << second->error()->what();
    EXPECT_THROW(scheduler->submit({.verb = Verb::allreduce, .inputs = {b.view()}, .on_gpu = b.place()}), Error);
  });
}

TEST(NamedCallsEnd, WhatStartsBehindTheEndFails) {
  run_world(1, [](World& world) {
    const auto calls = calls_of(world, {});
    const OnGpu tensor(world, {1});
    const auto operation = calls->make({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place()});
    calls->close();
    operation->start("allreduce 'late'");
    EXPECT_FALSE(operation->when_done([] { ADD_FAILURE() << "no thread is left that could call this"; }));
    EXPECT_TRUE(operation->wait({}));
    ASSERT_TRUE(operation->error());
    EXPECT_EQ(operation->error()->code(), ErrorCode::aborted);
  });
}

// An agenda ends while NCCL's kernels hang: NCCL is aborted, its events complete, and yet nothing was reduced.
std::optional<Error> error_at_the_end(World& world, const std::function<void()>& while_it_ends) {
  const auto calls =
      calls_of(world, {.backend = "nccl", .nccl = {.end = milliseconds(100)}}, true, "", {.kernels_hang = true});
  const OnGpu tensor(world, {1});
  const auto operation = calls->make({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place()});
  operation->start("allreduce 'hangs'");
  while (fake::nccl_alive() < world.size()) std::this_thread::sleep_for(milliseconds(1));  // it has begun
  auto closing = std::async(std::launch::async, [&] { calls->close(); });
  while_it_ends();
  auto waiting = std::async(std::launch::async, [&] { return operation->wait({}); });
  closing.get();
  EXPECT_TRUE(waiting.get());
  EXPECT_EQ(tensor.values(), std::vector<float>{1});
  return operation->error();
}

TEST(NamedCallsEnd, WhatIsAbortedBecauseTheWorldFailsAtTheEndFails) {
  for (const Told& each : told_on_all_ranks(2, [](World& world) {
         const auto error = error_at_the_end(world, [&] {
           std::this_thread::sleep_for(milliseconds(200));  // the operation is queued, and the end waits for it
           if (world.rank() == 1) world.abort("enough");
         });
         if (error) throw Error(*error);
       })) {
    ASSERT_TRUE(each.error) << "rank " << each.rank;
    EXPECT_THAT(each.error->what(), HasSubstr("enough"));
  }
}

TEST(NamedCallsEnd, WhatIsNotDoneInTimeAtTheEndFails) {
  run_world(2, [](World& world) {
    const auto error = error_at_the_end(world, [] {});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::aborted);
    EXPECT_THAT(error->what(), HasSubstr("wait for all operations before that"));
    EXPECT_FALSE(world.failure());
    world.barrier();
  });
}

// A child of fork() has none of the parent's threads.
TEST(NamedCallsEnd, AChildOfForkLeavesThemAlone) {
  run_world(1, [](World& world) {
    auto scheduler = Scheduler::make(world);
    scheduler->use(calls_of(world, {}));
    const OnGpu a(world, {1});
    wait(*scheduler, scheduler->submit({.verb = Verb::allreduce, .inputs = {a.view()}, .on_gpu = a.place()}));
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      scheduler.reset();
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    scheduler->close();
  });
}

// A handle may be dropped, and an agenda may end, while operations wait.
TEST_P(NamedCallsEndBy, EndWithTheirAgenda) {
  run_agendas(2, GetParam(), [](World& world, Scheduler& scheduler) {
    const OnGpu tensor(world, std::vector<float>(100, 1));
    auto operation = scheduler.submit(
        {.verb = Verb::allreduce, .name = "dropped", .inputs = {tensor.view()}, .on_gpu = tensor.place()});
    scheduler.abandon(*operation);
    operation.reset();
    const OnGpu other(world, std::vector<float>(10, 1));
    wait(scheduler, scheduler.submit(
                        {.verb = Verb::allreduce, .name = "other", .inputs = {other.view()}, .on_gpu = other.place()}));
    EXPECT_THAT(tensor.values(), Each(2.0F));
  });
}

}  // namespace
}  // namespace anello
