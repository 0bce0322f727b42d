// Every way in which NCCL can leave a rank waiting, and the errors that follow.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <atomic>
#include <future>
#include <thread>

#include "tests/gpu/on_fake_nccl.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The errors of all ranks if rank 1 has the given faults, and the time that the ranks took. No communicator may be
// left.
struct Ending {
  std::vector<Told> told;
  milliseconds took;
};
Ending end_of(const fake::NcclFaults& faults, const NcclCommunicator::Limits& limits,
              const std::function<void(World&, Verbs<Nccl>&, GpuStream stream)>& program, bool compare = false) {
  const auto began = std::chrono::steady_clock::now();
  Ending ending;
  ending.told = told_on_all_ranks(3, [&](World& world) {
    if (world.rank() == 1) fake::nccl_faults() = faults;
    const Stream stream = make_stream(fake::device(world.rank()));
    try {
      const auto on_gpu = nccl(world, limits, compare);
      program(world, *on_gpu, stream.get());
    } catch (const Error&) {
      fake::finish(stream.get());  // no kernel waits any more
      throw;
    }
  });
  ending.took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began);
  EXPECT_EQ(fake::alive(), 0);
  EXPECT_EQ(fake::nccl_alive(), 0);
  return ending;
}

void expect_error_on_all(const Ending& ending, ErrorCode code, int culprit, const std::string& what) {
  for (const Told& told : ending.told) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " threw nothing";
    EXPECT_EQ(told.error->code(), code) << told.error->what();
    EXPECT_EQ(told.error->rank(), culprit) << told.error->what();
    EXPECT_THAT(told.error->message(), HasSubstr(what));
    EXPECT_EQ(told.error->message(), ending.told[0].error->message());
  }
  EXPECT_LT(ending.took, seconds(30));
}

void reduce_forever(World& world, Verbs<Nccl>& on_gpu, GpuStream stream) {
  thread_local std::vector<int> values;  // kernels use this until the caller has finished the stream
  values.assign(100, world.rank());
  for (;;) {
    on_gpu.allreduce(values, values, stream, Op::sum, {});
    fake::finish(stream);
  }
}

TEST(NcclFailure, ThatRefusesACommunicatorEndsTheWorld) {
  expect_error_on_all(end_of({.refuses = true}, kLimits, reduce_forever), ErrorCode::aborted, 1,
                      "NCCL on GPU 1: the fake refuses");
}

TEST(NcclFailure, TwoRanksOnOneGpuEndTheWorld) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         fake::nccl_moves_with(world.group(all_ranks(world)));
         Nccl on_gpu(world, fake::device(3), {&fake::nccl_table()}, kLimits, false);
         world.barrier();
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_THAT(told.error->what(), HasSubstr("NCCL on GPU 3: the fake refuses"));
  }
  EXPECT_EQ(fake::nccl_alive(), 0);
}

TEST(NcclFailure, ThatIsNeverThereIsGivenUpAfterTheLimit) {
  NcclCommunicator::Limits limits;
  limits.start = milliseconds(200);
  expect_error_on_all(end_of({.never_there = true}, limits, reduce_forever), ErrorCode::aborted, 1,
                      "it took more than 200 ms");
}

// Other failures during the start are only thrown, and the world goes on. But here the other ranks wait inside NCCL for
// the dead rank.
TEST(NcclFailure, ADeathDuringTheStartIsNotWaitedFor) {
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Told> told = told_on_all_ranks(2, [](World& world) {
    fake::nccl_faults().never_there = true;
    fake::nccl_moves_with(world.group(all_ranks(world)));
    NcclCommunicator::Limits limits;
    if (world.rank() == 1) limits.start = milliseconds(50);
    try {
      const Nccl never(world, fake::device(world.rank()), Nccl::Tables{&fake::nccl_table()}, limits, false,
                       NcclCommunicator::StartFailure::is_thrown);
    } catch (const Error&) {
      if (world.rank() == 0) throw;
      world.abort("enough");
    }
  });
  ASSERT_TRUE(told[0].error);
  EXPECT_EQ(told[0].error->rank(), 1) << told[0].error->what();
  EXPECT_THAT(told[0].error->what(), AllOf(HasSubstr("making a communicator"), HasSubstr("enough")));
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLimits.start / 2);
  EXPECT_EQ(fake::nccl_alive(), 0);
}

// The device behaves as after a kernel that writes to an illegal address: no event completes any more.
TEST(NcclFailure, AnErrorOfTheDeviceEndsTheWorld) {
  const std::vector<Told> told = told_on_all_ranks(1, [](World& world) {
    const auto on_gpu = nccl(world);
    std::vector<int> values(100, 1);
    fake::corrupt();
    on_gpu->allreduce(values, values, nullptr, Op::sum, {});
    while (!world.failure()) std::this_thread::sleep_for(milliseconds(1));
    fake::recover();
    throw *world.failure();
  });
  ASSERT_TRUE(told[0].error);
  EXPECT_THAT(told[0].error->what(), HasSubstr("GPU 0: NCCL allreduce #0 (sum of 100 i32): the fake is broken"));
  fake::wait_for_all();
}

TEST(NcclFailure, AnErrorThatItFindsByItselfEndsTheWorld) {
  const int before = fake::nccl_aborted();
  const Ending ending = end_of({}, kLimits, [](World& world, Verbs<Nccl>& on_gpu, GpuStream stream) {
    std::vector<int> values(100, 1);
    on_gpu.allreduce(values, values, stream, Op::sum, {});
    fake::finish(stream);
    if (world.rank() == 1) fake::nccl_breaks();
    while (!world.failure()) std::this_thread::sleep_for(milliseconds(1));
    reduce_forever(world, on_gpu, stream);
  });
  expect_error_on_all(ending, ErrorCode::aborted, 1, "NCCL on GPU 1: the fake is broken (a cable is loose)");
  EXPECT_EQ(fake::nccl_aborted() - before, 3);
}

NcclCommunicator::Limits within(milliseconds limit) {
  NcclCommunicator::Limits limits;
  limits.operation = limit;
  return limits;
}

TEST(NcclFailure, AKernelThatHangsIsEndedAfterTheLimit) {
  const Ending ending = end_of({.kernels_hang = true}, within(milliseconds(300)), reduce_forever);
  expect_error_on_all(ending, ErrorCode::timed_out, -1, "allreduce #0 (sum of 100 i32)");
  EXPECT_THAT(ending.told[0].error->message(),
              AllOf(HasSubstr("has stalled for 0.3 s: all ranks have called it"), HasSubstr("ANELLO_OPERATION_LIMIT")));
}

// The peers of this rank may wait for it on the device, or inside NCCL, which connects ranks at the first call.
TEST(NcclFailure, ARankThatDoesNotComeIsNamedAfterTheLimit) {
  for (const bool while_connecting : {false, true}) {
    const std::vector<Told> told = told_on_all_ranks(3, [&](World& world) {
      fake::nccl_faults().launches_hang = while_connecting;
      const Stream stream = make_stream(fake::device(world.rank()));
      const auto on_gpu = nccl(world, within(milliseconds(300)));
      while (world.rank() == 1 && !world.failure()) std::this_thread::sleep_for(milliseconds(10));
      std::vector<int> values(100, 1);
      try {
        reduce_forever(world, *on_gpu, stream.get());
      } catch (const Error&) {
        fake::finish(stream.get());
        throw;
      }
    });
    for (const Told& each : told) {
      ASSERT_TRUE(each.error);
      EXPECT_EQ(each.error->code(), ErrorCode::timed_out) << each.error->what();
      EXPECT_EQ(each.error->rank(), 1) << each.error->what();
      EXPECT_THAT(each.error->message(), HasSubstr("rank 1 on localhost has not come"));
    }
  }
}

TEST(NcclFailure, APeerThatDoesNotComeEndsTheWorldAfterTheLimit) {
  const std::vector<Told> told = told_on_all_ranks(2, [](World& world) {
    const Stream stream = make_stream(fake::device(world.rank()));
    const auto on_gpu = nccl(world, within(milliseconds(300)));
    std::vector<int> values(100, 1);
    if (world.rank() == 0) on_gpu->recv(values, 1, stream.get(), {});
    while (!world.failure()) std::this_thread::sleep_for(milliseconds(10));
    fake::finish(stream.get());
    throw *world.failure();
  });
  for (const Told& each : told) {
    EXPECT_THAT(each.error->message(), HasSubstr("GPU 0: NCCL recv of 100 i32 from rank 1 took more than 300 ms"));
    EXPECT_EQ(each.error->code(), ErrorCode::timed_out);
  }
}

// A program may queue many operations, which together take longer than the limit of one operation.
TEST(NcclFailure, ALongQueueIsNotOverItsLimit) {
  run_world(2, [](World& world) {
    const Stream stream = make_stream(fake::device(world.rank()));
    const auto on_gpu = nccl(world, within(milliseconds(1500)));
    std::vector<int> values(100, 1);
    for (int call = 0; call < 60; call++) {
      fake::queue(stream.get(), [] { std::this_thread::sleep_for(milliseconds(30)); });
      on_gpu->allreduce(values, values, stream.get(), Op::max, {});
    }
    fake::finish(stream.get());
    EXPECT_FALSE(world.failure());
  });
}

std::string reports_of(int ranks, const Program& program) {
  Settings settings = Settings::from_environment();
  settings.stall_time = milliseconds(200);
  ::testing::internal::CaptureStderr();
  run_world(ranks, program, settings);
  return ::testing::internal::GetCapturedStderr();
}

TEST(NcclFailure, ARankThatDoesNotComeIsNamed) {
  std::atomic<bool> reported = false;
  const std::string said = reports_of(3, [&](World& world) {
    const auto on_gpu = nccl(world);
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> values(100, 1);
    on_gpu->allreduce(values, values, stream.get(), Op::sum, {});
    fake::finish(stream.get());
    const std::uint64_t before = world.counters().stalls;  // on a busy machine the first call may stall too
    while (world.rank() == 1 && !reported) std::this_thread::sleep_for(milliseconds(10));
    on_gpu->allreduce(values, values, stream.get(), Op::max, {.name = "late"});
    while (world.rank() == 0 && world.counters().stalls < before + 5) std::this_thread::sleep_for(milliseconds(10));
    if (world.rank() == 0) reported = true;
    fake::finish(stream.get());
  });
  EXPECT_THAT(said, AllOf(HasSubstr("(max of 100 i32) 'late' in group (0, 1, 2) has stalled for 0.2 s: rank 1 on "
                                    "localhost has not come, and called last allreduce #0 (sum of 100 i32) 'NCCL'")));
}

TEST(NcclFailure, APeerThatDoesNotComeIsNamed) {
  const std::string said = reports_of(2, [](World& world) {
    const auto on_gpu = nccl(world);
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> values(100, 1);
    if (world.rank() == 0) {
      const std::uint64_t before = world.counters().stalls;  // on a busy machine the start may stall too
      on_gpu->recv(values, 1, stream.get(), {});
      while (world.counters().stalls < before + 2) std::this_thread::sleep_for(milliseconds(20));
    }
    world.barrier();
    if (world.rank() == 1) on_gpu->send(values, 0, stream.get(), {});
    fake::finish(stream.get());
  });
  EXPECT_THAT(said, HasSubstr("GPU 0: NCCL recv of 100 i32 from rank 1 has waited for 0.2 s"));
}

TEST(NcclFailure, CallsAreRecordedAndCounted) {
  run_world(2, [](World& world) {
    const std::uint64_t before = world.counters().operations;
    const auto on_gpu = nccl(world);
    const std::uint64_t made = world.counters().operations - before;
    const Stream stream = make_stream(fake::device(world.rank()));
    std::vector<int> values(100, 1);
    for (int i = 0; i < 150; i++) on_gpu->allreduce(values, values, stream.get(), Op::max, {.name = "counted"});
    fake::finish(stream.get());
    while (world.counters().operations - before < made + 150) std::this_thread::sleep_for(milliseconds(5));
    const Scratch scratch;
    world.write_flight(scratch / "flight");
    EXPECT_THAT(bytes_of(scratch / "flight"), AllOf(HasSubstr("counted"), HasSubstr("max of 100 i32")));
  });
}

TEST(NcclFailure, RecordsAndErrorsNumberACallAlike) {
  const std::vector<Told> told = told_on_all_ranks(1, [](World& world) {
    const std::uint64_t before = world.counters().operations;
    const auto on_gpu = nccl(world);
    const std::uint64_t made = world.counters().operations - before;
    std::vector<int> none, values(100, 1);
    on_gpu->allreduce(none, none, nullptr, Op::max, {});  // has a number, but is not queued
    on_gpu->allreduce(values, values, nullptr, Op::max, {});
    while (world.counters().operations - before < made + 1) std::this_thread::sleep_for(milliseconds(5));
    const Scratch scratch;
    world.write_flight(scratch / "flight");
    EXPECT_THAT(bytes_of(scratch / "flight"), HasSubstr("allreduce #1 (max of 100 i32)"));
    fake::nccl_breaks();
    on_gpu->allreduce(none, none, nullptr, Op::max, {});
    on_gpu->allreduce(values, values, nullptr, Op::max, {});
  });
  ASSERT_TRUE(told[0].error);
  EXPECT_THAT(told[0].error->what(), HasSubstr("NCCL allreduce #3 (max of 100 i32)"));
}

// The first call of a communicator waits for its peers to connect. Meanwhile another communicator of the device must be
// able to launch from another thread.
TEST(NcclFailure, ALaunchThatWaitsDoesNotKeepOthersBack) {
  run_world(1, [](World& world) {
    const auto quick = nccl(world);
    fake::nccl_faults().launches_hang = true;
    const auto slow = nccl(world);
    std::vector<int> first(10, 1), second(10, 1);
    std::promise<void> begun;
    std::thread other([&] {
      begun.set_value();
      EXPECT_THROW(slow->allreduce(first, first, nullptr, Op::max, {}), Error);
    });
    begun.get_future().wait();
    std::this_thread::sleep_for(milliseconds(50));  // so that it most likely launches first
    quick->allreduce(second, second, nullptr, Op::max, {});
    world.abort("enough");
    other.join();
    const DeviceGuard guard(fake::device());
    fake::finish(nullptr);
  });
}

// NCCL's kernels would wait for the kernels of the dead rank; the error must name the death.
TEST(NcclFailure, ARankThatDiesFreesTheOthers) {
  const std::vector<Told> told = told_on_all_ranks(3, [&](World& world) {
    if (world.rank() != 1) fake::nccl_faults().kernels_hang = true;
    const Stream stream = make_stream(fake::device(world.rank()));
    const auto on_gpu = nccl(world);
    world.barrier();
    if (world.rank() == 1) return world.abort("enough");
    std::vector<int> values(100, 1);
    on_gpu->allreduce(values, values, stream.get(), Op::sum, {});
    fake::finish(stream.get());
    on_gpu->allreduce(values, values, stream.get(), Op::sum, {});
  });
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(told[std::size_t(rank)].error);
    EXPECT_EQ(told[std::size_t(rank)].error->rank(), 1) << told[std::size_t(rank)].error->what();
    EXPECT_THAT(told[std::size_t(rank)].error->what(), AllOf(HasSubstr("NCCL allreduce #"), HasSubstr("enough")));
  }
  EXPECT_EQ(fake::nccl_alive(), 0);
}

TEST(NcclFailure, AnAbortThatDoesNotComeBackIsLeftBehind) {
  undisturbed(milliseconds(100), [&] {
    NcclCommunicator::Limits limits;
    limits.end = milliseconds(50);
    const auto began = std::chrono::steady_clock::now();
    run_world(1, [&](World& world) {
      fake::nccl_faults().abort_takes_ms = 3000;
      const auto on_gpu = nccl(world, limits);
      world.abort("enough");
    });
    EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(2));
    EXPECT_EQ(NcclCommunicator::left_behind(), 1);
    while (NcclCommunicator::left_behind() > 0) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(fake::nccl_alive(), 0);
  });
}

TEST(NcclFailure, ArgumentsThatDifferAreAMismatchWhereTheyAreCompared) {
  const auto with_counts = [](World& world, Verbs<Nccl>& on_gpu, GpuStream stream) {
    thread_local std::vector<int> values;  // as in reduce_forever
    values.assign(world.rank() == 1 ? 101 : 100, 1);
    for (;;) on_gpu.allreduce(values, values, stream, Op::sum, {});
  };
  fake::NcclFaults hang{.kernels_hang = true};
  const Ending ending = end_of(hang, kLimits, with_counts, true);
  for (const Told& told : ending.told) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch) << told.error->what();
  }
  EXPECT_LT(ending.took, seconds(30));
}

TEST(NcclFailure, UnequalPartsThatDoNotFitEndTheWorld) {
  const Ending ending = end_of({}, kLimits, [](World& world, Verbs<Nccl>& on_gpu, GpuStream stream) {
    std::vector<std::uint64_t> sends(3, 4);
    const std::vector<std::uint64_t> expects(3, 4);
    if (world.rank() == 2) sends[0] = sends[1] = 5;
    thread_local std::vector<int> from, to;  // as in reduce_forever
    from.assign(group::sum(sends), 0);
    to.assign(12, 0);
    on_gpu.alltoall(from, to, sends, expects, stream, {});
    reduce_forever(world, on_gpu, stream);
  });
  for (const Told& told : ending.told) EXPECT_THAT(told.error->message(), HasSubstr("rank 2 sends 5 elements"));
}

}  // namespace
}  // namespace anello::gpu
