// Named operations on tensors in the memory of fake GPUs.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <atomic>
#include <future>
#include <thread>

#include "tests/gpu/on_named_calls.hpp"

namespace anello {
namespace {

using agenda::NamedCall;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::HasSubstr;

class NamedCallsBy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, NamedCallsBy, ::testing::Values("nccl", "staged"),
                         [](const auto& one) { return one.param; });

// Each rank submits in an order of its own, while its stream still has work.
TEST_P(NamedCallsBy, AreCarriedOutInAnyOrder) {
  run_agendas(3, GetParam(), [](World& world, Scheduler& scheduler) {
    constexpr int kNames = 8;
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    for (int step = 1; step <= 3; step++) {
      std::vector<std::unique_ptr<OnGpu>> tensors;
      for (int k = 0; k < kNames; k++)
        tensors.push_back(std::make_unique<OnGpu>(world, std::vector<float>(std::size_t(100 + k))));
      std::vector<Scheduler::Handle> operations(kNames);
      for (int i = 0; i < kNames; i++) {
        const int k = (i * (2 * world.rank() + 1)) % kNames;
        OnGpu& tensor = *tensors[std::size_t(k)];
        fake::queue(stream.get(), [&tensor, value = float(step * (world.rank() + k))] {
          std::this_thread::sleep_for(milliseconds(1));
          std::fill_n(tensor.floats(), tensor.values().size(), value);
        });
        const std::string name = "tensor " + std::to_string(k);
        operations[std::size_t(k)] = scheduler.submit(
            {.verb = Verb::allreduce, .name = name, .inputs = {tensor.view()}, .on_gpu = tensor.place(stream.get())});
      }
      for (int k = 0; k < kNames; k++) {
        wait(scheduler, operations[std::size_t(k)]);
        EXPECT_THAT(tensors[std::size_t(k)]->values(), Each(float(step * (3 + 3 * k)))) << k;
      }
    }
  });
}

// No rank waits, and no handle is kept. One of the ranks has joined.
TEST_P(NamedCallsBy, AreFollowedByTheirCallbacks) {
  run_agendas(3, GetParam(), [](World& world, Scheduler& scheduler) {
    constexpr int kTimes = 20;
    std::vector<std::unique_ptr<OnGpu>> tensors;
    std::atomic<int> called = 0;
    std::promise<void> all_called;
    const auto note = [&](const Error* error) {
      EXPECT_FALSE(error) << error->what();
      if (++called == kTimes + 1) all_called.set_value();
    };
    const bool joins = world.rank() == 1;
    if (joins) called = kTimes;
    for (int k = 0; k < kTimes && !joins; k++) {
      tensors.push_back(std::make_unique<OnGpu>(world, std::vector<float>(std::size_t(100 + k), 1)));
      const auto operation = scheduler.submit(
          {.verb = Verb::allreduce, .inputs = {tensors.back()->view()}, .on_gpu = tensors.back()->place()});
      if (k % 2 == 0) std::this_thread::sleep_for(milliseconds(1));
      scheduler.when_done(operation, note);
    }
    scheduler.when_done(
        scheduler.submit({.verb = Verb::join, .on_gpu = agenda::OnGpu{int(fake::device(world.local_rank() % 4).id)}}),
        note);
    all_called.get_future().wait();
    for (const auto& tensor : tensors) EXPECT_THAT(tensor->values(), Each(2.0F));
  });
}

// The program captures a graph while it waits for a callback.
TEST_P(NamedCallsBy, LeaveCapturesAlone) {
  run_agendas(1, GetParam(), [](World& world, Scheduler& scheduler) {
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    const gpu::Stream captured = gpu::make_stream(fake::device(world.rank()));
    std::promise<void> go_on, called;
    fake::queue(stream.get(), [go_on = go_on.get_future().share()] { go_on.wait(); });
    const OnGpu tensor(world, {1});
    const auto operation =
        scheduler.submit({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place(stream.get())});
    scheduler.when_done(operation, [&](const Error* error) {
      EXPECT_FALSE(error) << error->what();
      called.set_value();
    });
    bool ran = false;
    fake::capture(captured.get());
    fake::queue(captured.get(), [&] { ran = true; });
    std::this_thread::sleep_for(milliseconds(50));
    go_on.set_value();
    called.get_future().wait();
    fake::replay(captured.get());
    fake::finish(captured.get());
    EXPECT_TRUE(ran) << "the capture is spoilt";
  });
}

TEST_P(NamedCallsBy, HaveOneCallbackAtATime) {
  run_agendas(1, GetParam(), [](World& world, Scheduler& scheduler) {
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    std::promise<void> go_on, called;
    fake::queue(stream.get(), [go_on = go_on.get_future().share()] { go_on.wait(); });
    const OnGpu tensor(world, {1});
    const auto operation =
        scheduler.submit({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place(stream.get())});
    scheduler.when_done(operation, [](const Error*) { ADD_FAILURE() << "the second one has replaced it"; });
    scheduler.when_done(operation, [&](const Error* error) {
      EXPECT_FALSE(error);
      called.set_value();
    });
    go_on.set_value();
    called.get_future().wait();
  });
}

TEST_P(NamedCallsBy, ReduceListsAndBroadcast) {
  run_agendas(2, GetParam(), [](World& world, Scheduler& scheduler) {
    const float own = float(world.rank() + 1);
    const OnGpu a(world, {own, 2 * own}), b(world, {own}), sum_a(world, {0, 0}), sum_b(world, {0});
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce,
                                      .name = "apart",
                                      .inputs = {a.view(), b.view()},
                                      .outputs = {sum_a.view(), sum_b.view()},
                                      .op = Op::average,
                                      .prescale = 2,
                                      .on_gpu = a.place()}));
    const OnGpu third(world, {1.0F / 3}), of_one(world, {own});
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce,
                                      .name = "one",
                                      .inputs = {of_one.view()},
                                      .outputs = {third.view()},
                                      .postscale = 5,
                                      .on_gpu = a.place()}));
    EXPECT_EQ(third.values(), std::vector<float>{15});
    const OnGpu exact(world, {1.0F / 3});
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce,
                                      .name = "in 16 bits",
                                      .inputs = {exact.view()},
                                      .op = Op::average,
                                      .wire = DType::bf16,
                                      .on_gpu = a.place()}));
    EXPECT_NE(exact.values()[0], 1.0F / 3);
    EXPECT_NEAR(exact.values()[0], 1.0F / 3, 2e-3F);
    EXPECT_EQ(sum_a.values(), (std::vector<float>{3, 6}));
    EXPECT_EQ(sum_b.values(), std::vector<float>{3});
    EXPECT_EQ(a.values(), (std::vector<float>{own, 2 * own}));
    wait(scheduler, scheduler.submit({.verb = Verb::broadcast,
                                      .name = "from 1",
                                      .inputs = {a.view(), b.view()},
                                      .root = 1,
                                      .on_gpu = a.place()}));
    EXPECT_EQ(a.values(), (std::vector<float>{2, 4}));
  });
}

TEST_P(NamedCallsBy, AJoinedRankGivesWhatChangesNothing) {
  run_agendas(3, GetParam(), [](World& world, Scheduler& scheduler) {
    if (world.rank() == 2) {
      const auto join = scheduler.submit({.verb = Verb::join});
      return wait(scheduler, join);
    }
    for (const Op op : {Op::sum, Op::min}) {
      const OnGpu tensor(world, std::vector<float>(50, float(world.rank() + 1)));
      wait(scheduler, scheduler.submit({.verb = Verb::allreduce,
                                        .name = "step",
                                        .inputs = {tensor.view()},
                                        .op = op,
                                        .on_gpu = tensor.place()}));
      EXPECT_THAT(tensor.values(), Each(op == Op::sum ? 3.0F : 1.0F));
    }
    wait(scheduler, scheduler.submit({.verb = Verb::join}));
  });
}

// The ranks find the difference before anything moves, so the world goes on.
TEST_P(NamedCallsBy, TensorsInDifferentMemoriesDoNotMatch) {
  run_agendas(2, GetParam(), [](World& world, Scheduler& scheduler) {
    const OnGpu tensor(world, {1, 2});
    std::vector<float> host{1, 2};
    NamedCall request{.verb = Verb::allreduce, .name = "where", .inputs = {tensor.view()}, .on_gpu = tensor.place()};
    if (world.rank() == 1)
      request = {.verb = Verb::allreduce, .name = "where", .inputs = {{host.data(), {2}, DType::f32}}};
    const auto operation = scheduler.submit(std::move(request));
    try {
      wait(scheduler, operation);
      ADD_FAILURE() << "they match";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_THAT(error.what(),
                  HasSubstr("rank 0 has tensors that stay on its GPU, rank 1 has tensors that go through host memory"));
    }
    EXPECT_FALSE(world.failure());
    wait(scheduler,
         scheduler.submit(
             {.verb = Verb::allreduce, .name = "then", .inputs = {tensor.view()}, .on_gpu = tensor.place()}));
    EXPECT_EQ(tensor.values(), (std::vector<float>{2, 4}));
  });
}

TEST(NamedCalls, RefuseWhatTheyCannotDo) {
  run_agendas(1, "auto", [](World& world, Scheduler& scheduler) {
    const OnGpu tensor(world, {1, 2});
    const auto refusal = [&](NamedCall request) -> std::string {
      try {
        scheduler.submit(std::move(request));
        return "";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
      }
    };
    EXPECT_THAT(refusal({.verb = Verb::allgather, .inputs = {tensor.view()}, .on_gpu = tensor.place()}),
                HasSubstr("allgather: tensors must be in host memory; only allreduce and broadcast"));
    EXPECT_THAT(refusal({.verb = Verb::allreduce,
                         .inputs = {{tensor.view().data, {2}, DType::i32}},
                         .prescale = 2,
                         .on_gpu = tensor.place()}),
                HasSubstr("factors of i32 are not available in GPU memory"));
    EXPECT_THAT(refusal({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = agenda::OnGpu{99, nullptr}}),
                HasSubstr("GPU 99 was asked for; it must be one of 0 to 3"));
    EXPECT_THAT(refusal({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = agenda::OnGpu{3, nullptr}}),
                HasSubstr("a tensor is on GPU 0, but the call says that it is on GPU 3"));
    std::vector<float> host(2);
    EXPECT_THAT(
        refusal({.verb = Verb::allreduce, .inputs = {{host.data(), {2}, DType::f32}}, .on_gpu = tensor.place()}),
        HasSubstr("a tensor is in host memory, but the call says that it is on GPU 0"));
    EXPECT_THROW(scheduler.use(calls_of(world, {})), Error);
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place()}));
    EXPECT_THAT(refusal({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = agenda::OnGpu{3, nullptr}}),
                HasSubstr("a tensor is on GPU 3, but earlier tensors were on GPU 0"));
    EXPECT_THAT(refusal({.verb = Verb::allreduce,
                         .inputs = {tensor.view()},
                         .on_gpu = agenda::OnGpu{0, reinterpret_cast<GpuStream>(2)}}),
                HasSubstr("cudaStreamPerThread"));
  });
}

TEST(NamedCalls, AnAgendaWithoutGpusRefusesTensorsOnThem) {
  run_world(1, [](World& world) {
    const auto scheduler = Scheduler::make(world);
    const OnGpu tensor(world, {1, 2});
    EXPECT_THROW(scheduler->submit({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place()}),
                 Error);
  });
}

}  // namespace
}  // namespace anello
