// Named operations on tensors in the memory of fake GPUs.
#include "gpu/named_calls.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <future>
#include <numeric>
#include <thread>

#include "ring/agenda/scheduler.hpp"
#include "tests/gpu/gpus_of.hpp"

namespace anello {
namespace {

using agenda::NamedOperation;
using agenda::Request;
using agenda::Scheduler;
using agenda::Verb;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::HasSubstr;

// Floats on this rank's GPU.
class OnGpu {
 public:
  OnGpu(World& world, std::vector<float> values)
      : device_(fake::device(world.local_rank() % 4)),
        memory_(gpu::make_memory(device_, values.size() * sizeof(float))),
        count_(values.size()) {
    std::ranges::copy(values, floats());
  }
  agenda::ArrayView view() const { return {memory_.get(), {count_}, DType::f32}; }
  agenda::OnGpu place(GpuStream stream = nullptr) const { return {int(device_.id), stream}; }
  std::vector<float> values() const { return {floats(), floats() + count_}; }
  float* floats() const { return static_cast<float*>(memory_.get()); }

 private:
  gpu::Device device_;
  gpu::DeviceMemory memory_;
  std::size_t count_;
};

std::unique_ptr<gpu::NamedCalls> calls_of(World& world, const Choice& choice, bool has_plugin = true) {
  std::vector<int> all(std::size_t(world.size()));
  std::iota(all.begin(), all.end(), 0);
  const Group ranks = world.group(all), moves = world.group(all);
  return std::make_unique<gpu::NamedCalls>(
      ranks, gpu::NamedCalls::Makers{[]() -> const AnelloGpuTable& { return fake::table(); },
                                     [&world, ranks, moves, choice, has_plugin](std::optional<int> device) {
                                       fake::nccl_moves_with(moves);
                                       Choice its = choice;
                                       its.device = device.value_or(world.local_rank() % 4);
                                       return GpuGroupAccess::make(
                                           std::make_unique<GpuGroupAccess::Impl>(world, ranks, its, [has_plugin] {
                                             if (!has_plugin)
                                               throw Error(ErrorCode::unsupported, "the plugin is not here");
                                             return load();
                                           }));
                                     }});
}

// The ranks' schedulers of a world, whose agendas know of their GPUs, and which end in good order.
void run_agendas(int ranks, const std::string& backend, const std::function<void(World&, Scheduler&)>& program) {
  run_world(ranks, [&](World& world) {
    const auto scheduler = Scheduler::make(world);
    scheduler->use(calls_of(world, {.backend = backend}));
    program(world, *scheduler);
    const auto barrier = scheduler->submit({.verb = Verb::barrier, .name = "end of test"}, true);
    EXPECT_TRUE(scheduler->wait(*barrier));
    scheduler->close();
  });
  fake::wait_for_all();
  EXPECT_EQ(fake::alive(), 0);
  EXPECT_EQ(fake::nccl_alive(), 0);
}

void wait(Scheduler& scheduler, const Scheduler::Handle& operation) {
  ASSERT_TRUE(scheduler.wait(*operation));
  if (operation->error()) throw Error(*operation->error());
}

class NamedCallsBy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, NamedCallsBy, ::testing::Values("nccl", "staged"),
                         [](const auto& one) { return one.param; });

// Each rank submits in an order of its own, with work on its stream that is still being done.
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

// Before anything has moved, and the world goes on.
TEST_P(NamedCallsBy, TensorsInDifferentMemoriesDoNotMatch) {
  run_agendas(2, GetParam(), [](World& world, Scheduler& scheduler) {
    const OnGpu tensor(world, {1, 2});
    std::vector<float> host{1, 2};
    Request request{.verb = Verb::allreduce, .name = "where", .inputs = {tensor.view()}, .on_gpu = tensor.place()};
    if (world.rank() == 1)
      request = {.verb = Verb::allreduce, .name = "where", .inputs = {{host.data(), {2}, DType::f32}}};
    const auto operation = scheduler.submit(std::move(request));
    try {
      wait(scheduler, operation);
      ADD_FAILURE() << "they match";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_THAT(error.what(), HasSubstr("rank 0 has tensors in its GPU's memory, rank 1 has tensors in host memory"));
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
    const auto refusal = [&](Request request) -> std::string {
      try {
        scheduler.submit(std::move(request));
        return "";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
      }
    };
    EXPECT_THAT(refusal({.verb = Verb::allgather, .inputs = {tensor.view()}, .on_gpu = tensor.place()}),
                HasSubstr("allgather: only those of allreduce and broadcast may lie in GPU memory"));
    EXPECT_THAT(refusal({.verb = Verb::allreduce,
                         .inputs = {{tensor.view().data, {2}, DType::i32}},
                         .prescale = 2,
                         .on_gpu = tensor.place()}),
                HasSubstr("factors of i32 are not available in GPU memory"));
    wait(scheduler, scheduler.submit({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = tensor.place()}));
    EXPECT_THAT(refusal({.verb = Verb::allreduce, .inputs = {tensor.view()}, .on_gpu = agenda::OnGpu{3, nullptr}}),
                HasSubstr("a tensor is on GPU 3, but those before were on GPU 0"));
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

// All ranks get the same error, and the world goes on.
TEST(NamedCalls, ThatARankHasNoPluginIsAnErrorOfAll) {
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

// One rank dies: what the others wait for on their GPUs ends, and fails.
TEST_P(NamedCallsBy, ADeadRankEndsThem) {
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

// A handle may be dropped, and an agenda may end, while operations wait.
TEST_P(NamedCallsBy, EndWithTheirAgenda) {
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
