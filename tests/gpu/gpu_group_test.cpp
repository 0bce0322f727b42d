// How a GpuGroup chooses its backend, and that calls follow the memory of their tensors.
#include "gpu/gpu_group.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <anello/gpu_gradients.hpp>
#include <thread>

#include "ring/group/device_memory.hpp"
#include "tests/gpu/fake_nccl.hpp"
#include "tests/gpu/gpus_of.hpp"
#include "tests/gpu/on_fake_gpu.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Returns the backend and the reason for it. Expects that both are equal on all ranks of the world.
std::string way(int ranks, const std::function<Choice(int rank)>& choice) {
  std::vector<std::string> ways(std::size_t(ranks), "");
  run_world(ranks, [&](World& world) {
    const GpuGroup gpus = gpus_of(world, choice(world.rank()));
    ways[std::size_t(world.rank())] = text(gpus.backend(), ": ", gpus.reason());
  });
  for (const std::string& each : ways) EXPECT_EQ(each, ways[0]);
  return ways[0];
}

TEST(GpuGroup, TakesNcclWhereEveryRankHasAGpu) {
  for (const int ranks : {2, 4})
    EXPECT_EQ(way(ranks, [](int) { return Choice(); }), "nccl: NCCL 2.28.9, and a GPU for each rank");
}

TEST(GpuGroup, OfOneRankCallsNoNccl) {
  EXPECT_EQ(way(1, [](int) { return Choice(); }), "single: one rank, nothing travels");
  run_world(1, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    EXPECT_EQ(fake::nccl_alive(), 0);
    for (const std::size_t count : {1, 4105, 131075}) {
      std::vector<float> values(count, 3), result(count), scattered(count), reduced(count), doubled(count, 3);
      gpus.allreduce(values, result, nullptr, Op::average);
      gpus.reduce(values, reduced, 0, nullptr, Op::average);
      gpus.reduce_scatter(values, scattered, nullptr, Op::average);
      gpus.allreduce(doubled, nullptr, Op::sum, {.prescale = 2});  // staged: there are no kernels here
      gpus.synchronize(nullptr);
      EXPECT_EQ(result, values);
      EXPECT_EQ(reduced, values);
      EXPECT_EQ(scattered, values);
      EXPECT_EQ(doubled, std::vector<float>(count, 6));
    }
  });
}

TEST(GpuGroup, OfOneRankNeedsNoNccl) {
  const auto missing = [](int) {
    fake::nccl_faults().missing = "no libnccl.so.2";
    return Choice{.backend = "nccl", .against_nccl = "ANELLO_REPRODUCIBLE=1, which NCCL cannot keep"};
  };
  EXPECT_EQ(way(1, missing), "single: one rank, nothing travels");
}

// NCCL cannot keep these promises: the order in which it adds depends on hosts, sizes and transport, and it does not
// compare results.
TEST(GpuGroup, KeepsWhatTheSettingsPromise) {
  const Choice reproducible{.against_nccl = "ANELLO_REPRODUCIBLE=1, which NCCL cannot keep"};
  EXPECT_EQ(way(2, [&](int) { return reproducible; }), "staged: ANELLO_REPRODUCIBLE=1, which NCCL cannot keep");
  for (const Told& told : told_on_all_ranks(2, [&](World& world) {
         Choice choice = reproducible;
         choice.backend = "nccl";
         gpus_of(world, choice);
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::configuration);
    EXPECT_THAT(told.error->what(),
                HasSubstr("ANELLO_GPU_BACKEND=nccl is not possible: ANELLO_REPRODUCIBLE=1, which NCCL cannot keep"));
  }
}

TEST(GpuGroup, StagesWhereNcclDoesNotStart) {
  EXPECT_EQ(way(3,
                [](int rank) {
                  fake::nccl_faults().refuses = rank == 1;
                  return Choice();
                }),
            "staged: NCCL does not start on rank 1: making a communicator: NCCL on GPU 1: the fake refuses");
  EXPECT_EQ(fake::nccl_alive(), 0);
  const auto never = [](int rank) {
    fake::nccl_faults().never_there = rank == 0;
    Choice choice;
    choice.nccl.start = milliseconds(200);
    return choice;
  };
  EXPECT_EQ(way(2, never), "staged: NCCL does not start on rank 0: making a communicator: it took more than 200 ms");
  EXPECT_EQ(fake::nccl_alive(), 0);
}

TEST(GpuGroup, StagesWhereRanksHaveInstancesOfOneGpu) {
  EXPECT_EQ(way(2,
                [](int rank) {
                  fake::pretend_instance(rank);
                  return Choice{.device = 2};
                }),
            "staged: ranks 0 and 1 share GPU fake:2 of localhost");
}

TEST(GpuGroup, StagesWhereRanksShareAGpu) {
  EXPECT_EQ(way(5, [](int) { return Choice(); }), "staged: ranks 0 and 4 share GPU fake:0 of localhost");
  EXPECT_EQ(way(2, [](int) { return Choice{.device = 3}; }), "staged: ranks 0 and 1 share GPU fake:3 of localhost");
}

TEST(GpuGroup, StagesWhereNcclIsMissingOrDiffers) {
  const auto missing = [](int rank) {
    if (rank == 1) fake::nccl_faults().missing = "no libnccl.so.2";
    return Choice();
  };
  EXPECT_EQ(way(2, missing), "staged: rank 1 has no NCCL: no libnccl.so.2");
  const auto older = [](int rank) {
    if (rank == 1) fake::nccl_faults().version = 22005;
    return Choice();
  };
  EXPECT_EQ(way(2, older), "staged: rank 0 has NCCL 2.28.9, rank 1 2.20.5");
}

TEST(GpuGroup, StagesWhereItIsAskedTo) {
  EXPECT_EQ(way(2, [](int) { return Choice{.backend = "staged"}; }), "staged: ANELLO_GPU_BACKEND=staged");
}

// Expects that every rank throws the same error.
void expect_refused(const std::vector<Told>& all, ErrorCode code, const std::string& what) {
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " threw nothing";
    EXPECT_EQ(told.error->code(), code);
    EXPECT_THAT(told.error->what(), HasSubstr(what));
  }
}

TEST(GpuGroup, RefusesWhatCannotBe) {
  expect_refused(told_on_all_ranks(2, [](World& world) { gpus_of(world, {.backend = "cuda"}); }),
                 ErrorCode::configuration, "ANELLO_GPU_BACKEND must be one of auto, nccl, staged, not 'cuda'");
  expect_refused(told_on_all_ranks(5, [](World& world) { gpus_of(world, {.backend = "nccl"}); }),
                 ErrorCode::configuration, "ANELLO_GPU_BACKEND=nccl is not possible: ranks 0 and 4 share GPU fake:0");
}

// If one rank cannot make its GpuGroup, this is an error on all ranks.
TEST(GpuGroup, SaysOnAllRanksWhatOneOfThemLacks) {
  const auto only_rank_1 = [](World& world, const std::function<void()>& trouble, Choice choice = {}) {
    gpus_of(world, choice, [&] {
      if (world.rank() == 1) trouble();
      return load();
    });
  };
  expect_refused(
      told_on_all_ranks(
          3, [&](World& world) { only_rank_1(world, [] { throw Error(ErrorCode::unsupported, "no plugin"); }); }),
      ErrorCode::unsupported, "rank 1 on localhost: no plugin");
  expect_refused(told_on_all_ranks(3, [&](World& world) { only_rank_1(world, [] { fake::fail("device_count"); }); }),
                 ErrorCode::unsupported, "rank 1 on localhost: no GPU can be used: the fake is broken");
  expect_refused(
      told_on_all_ranks(3, [&](World& world) { only_rank_1(world, [] {}, {.device = world.rank() == 1 ? 4 : 0}); }),
      ErrorCode::unsupported, "rank 1 on localhost: GPU 4 was asked for; it must be one of 0 to 3");
}

class GpuGroupBy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuGroupBy, ::testing::Values("nccl", "staged"),
                         [](const auto& one) { return one.param; });

// Calls each collective once; the tests of the two backends check all cases.
TEST_P(GpuGroupBy, HasTheVerbsOfAGroup) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
    EXPECT_EQ(gpus.backend(), GetParam());
    EXPECT_EQ(gpus.device(), world.rank());
    const gpu::Stream owned = gpu::make_stream(fake::device(world.rank()));
    const GpuStream stream = owned.get();
    const int me = world.rank(), other = 1 - me;
    const auto filled = [](int value) { return std::vector<int>(100, value); };
    std::vector<int> a = filled(me + 1), b = filled(0), halves(200), sent = filled(me), got(100), list = filled(me);
    gpus.allreduce(a, stream);
    gpus.allreduce(a, b, stream, Op::max);
    gpus.allreduce(std::vector<Tensor>{list}, stream);
    gpus.allgather(sent, halves, stream);
    std::vector<int> reduced = filled(me), gathered(200), scattered(100), own(100), swapped(200), uneven(3);
    gpus.reduce(reduced, 1, stream);
    gpus.gather(sent, gathered, 0, stream);
    gpus.scatter(halves, scattered, 1, stream);
    gpus.reduce_scatter(halves, own, stream);
    gpus.alltoall(halves, swapped, stream);
    const std::vector<std::uint64_t> sends(2, std::uint64_t(me + 1)), recvs = {1, 2};
    gpus.alltoall(std::span(sent).first(2 * std::size_t(me + 1)), uneven, sends, recvs, stream);
    if (me == 0)
      gpus.send(sent, other, stream);
    else
      gpus.recv(got, other, stream);
    std::vector<int> swapped_whole(100);
    gpus.exchange(sent, other, swapped_whole, other, stream);
    std::vector<int> told = filled(me + 5);
    gpus.broadcast(told, 1, stream);
    gpus.synchronize(stream);
    EXPECT_EQ(a, filled(3));
    EXPECT_EQ(b, filled(3));
    EXPECT_EQ(list, filled(1));
    EXPECT_EQ(halves.back(), 1);
    EXPECT_EQ(reduced, filled(me == 1 ? 1 : 0));
    EXPECT_EQ(gathered, me == 0 ? halves : std::vector<int>(200));
    EXPECT_EQ(scattered, filled(me));
    EXPECT_EQ(own, filled(2 * me));
    EXPECT_EQ(swapped[0], me);
    EXPECT_EQ(uneven, (std::vector<int>{0, 1, 1}));
    EXPECT_EQ(got, filled(0));
    EXPECT_EQ(swapped_whole, filled(other));
    EXPECT_EQ(told, filled(6));
    GpuGroup alone = gpus.split(me);
    alone.allreduce(a, stream);
    alone.synchronize(stream);
    EXPECT_EQ(a, filled(3));
    EXPECT_EQ(alone.group().size(), 1);
  });
  EXPECT_EQ(fake::alive(), 0);
  EXPECT_EQ(fake::nccl_alive(), 0);
}

// NCCL launches kernels from its own threads. There the handle of a thread's default stream would mean a different
// stream.
TEST_P(GpuGroupBy, RefusesTheDefaultStreamOfAThread) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
    auto* const per_thread = reinterpret_cast<GpuStream>(2);
    std::vector<float> values(100, 1);
    const std::vector<Gradient> list = {{"values", values}};
    const std::function<void()> calls[] = {[&] { gpus.allreduce(values, per_thread); },
                                           [&] { gpus.synchronize(per_thread); },
                                           [&] { GpuGradients(gpus, list, per_thread); }};
    for (const auto& call : calls) try {
        call();
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_THAT(error.what(), HasSubstr("cudaStreamPerThread"));
      }
    EXPECT_FALSE(world.failure());
  });
}

// A null stream is the default stream of the rank's GPU, even if another device is the thread's current device.
TEST_P(GpuGroupBy, OrdersTheDefaultStreamOfItsOwnDevice) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
    const gpu::Device own = fake::device(world.rank());
    std::vector<int> values(100), seen;
    for (int round = 1; round <= 3; round++) {
      const auto queue_on_own = [&](std::function<void()> kernel) {
        const gpu::DeviceGuard guard(own);
        fake::queue(nullptr, std::move(kernel));
      };
      queue_on_own([&, round] {
        std::this_thread::sleep_for(milliseconds(5));
        values.assign(values.size(), round);
      });
      ASSERT_EQ(fake::table().set_device(2 + world.rank()), 0);
      gpus.allreduce(values, nullptr);
      ASSERT_EQ(fake::table().set_device(2 + world.rank()), 0);
      queue_on_own([&] { seen = values; });
      gpus.synchronize(nullptr);
      EXPECT_EQ(seen, std::vector<int>(100, 2 * round));
    }
  });
}

// A graph's kernels run later, or never. So a call that waits for its kernels on the host cannot be captured, and
// reports this.
TEST_P(GpuGroupBy, CapturesOnlyWhatIsQueuedWhole) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = GetParam()});
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    std::vector<float> values(100, 1);
    fake::capture(stream.get());
    const auto refused = [&](const std::function<void()>& call) {
      try {
        call();
        ADD_FAILURE() << "captured";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("cannot be captured into a CUDA graph"));
      }
    };
    const bool plain = GetParam() == "nccl";
    const auto call = [&] { gpus.allreduce(values, stream.get(), Op::sum, {.postscale = 2}); };
    if (plain)
      call();
    else
      refused(call);
    refused([&] { gpus.synchronize(stream.get()); });
    refused([&] { gpus.allreduce(values, stream.get(), Op::sum, {.wire = DType::f16}); });
    fake::replay(stream.get());
    gpus.synchronize(stream.get());
    EXPECT_EQ(values, std::vector<float>(100, plain ? 4 : 1));
    EXPECT_FALSE(world.failure());
  });
}

TEST(GpuGroup, OfOneRankIsCaptured) {
  run_world(1, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    const gpu::Stream stream = gpu::make_stream(fake::device());
    std::vector<float> values(100, 3), result(100);
    fake::capture(stream.get());
    gpus.allreduce(values, result, stream.get(), Op::average);
    EXPECT_EQ(result, std::vector<float>(100));
    fake::replay(stream.get());
    gpus.synchronize(stream.get());
    EXPECT_EQ(result, values);
  });
}

TEST(GpuGroup, StagesTheCallsThatNcclHasNoKernelsFor) {
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world);
    EXPECT_EQ(gpus.backend(), "nccl");
    std::vector<std::int16_t> shorts(100, 3);
    std::vector<float> halves(100, 0.25f);
    std::vector<int> bits(100, 1 << world.rank());
    gpus.allreduce(shorts, nullptr);
    gpus.allreduce(halves, nullptr, Op::sum, {.wire = DType::f16});
    gpus.allreduce(bits, nullptr, Op::bit_or);
    gpus.synchronize(nullptr);
    EXPECT_EQ(shorts, std::vector<std::int16_t>(100, 6));
    EXPECT_EQ(halves, std::vector<float>(100, 0.5f));
    EXPECT_EQ(bits, std::vector<int>(100, 3));
  });
}

// A thread that has never chosen a device would set up 500 MB on GPU 0, in every rank of the host.
TEST_P(GpuGroupBy, SetsUpNothingOnOtherDevices) {
  fake::forget_contexts();
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, {.backend = GetParam(), .device = 2 + world.rank()});
    std::vector<float> values(100, 1);
    gpus.allreduce(values, nullptr, Op::average);
    std::vector<float> all(200);
    gpus.allgather(values, all, nullptr);
    gpus.synchronize(nullptr);
  });
  EXPECT_EQ(fake::devices_with_context(), (std::set<int>{2, 3}));
}

TEST(GpuGroup, WhoSynchronizesHearsOfTheWorldsEnd) {
  const std::vector<Told> all = told_on_all_ranks(2, [](World& world) {
    fake::nccl_faults().kernels_hang = true;
    GpuGroup gpus = gpus_of(world);
    world.barrier();
    std::vector<int> values(100);
    if (world.rank() == 1) return world.abort("enough");
    gpus.allreduce(values, nullptr);
    gpus.synchronize(nullptr);
  });
  ASSERT_TRUE(all[0].error);
  EXPECT_THAT(all[0].error->what(), HasSubstr("enough"));
}

}  // namespace
}  // namespace anello
