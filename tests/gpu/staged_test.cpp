// The staged path over a fake GPU, whose streams race where nothing orders them.
#include "gpu/staged.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <memory>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/gpu/fake_gpu.hpp"
#include "tests/support/worlds.hpp"

namespace anello::gpu {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::size_t kSegmentBytes = 64;

std::unique_ptr<Staged> staged(World& world, Staged::Options options = {kSegmentBytes, milliseconds(0)}) {
  return std::make_unique<Staged>(
      world, fake::device(world.rank() % 2), [&world](std::string_view reason) { world.abort(reason); }, options);
}

void carry_out(Staged& on_gpu, int rank, const Exercise& exercise, Part& part, void* stream) {
  const ReduceOptions options{
      .wire = exercise.wire, .prescale = exercise.prescale, .postscale = exercise.postscale, .counts = {}};
  const ConstTensor input = exercise.in_place ? ConstTensor(part.output()) : part.input();
  switch (exercise.kind) {
    case Kind::allreduce:
      return on_gpu.allreduce(input, part.output(), stream, exercise.op, options);
    case Kind::reduce:
      return on_gpu.reduce(exercise.in_place ? ConstTensor(part.in_place()) : part.input(),
                           exercise.in_place ? part.in_place() : part.output(), exercise.root, stream, exercise.op,
                           options);
    case Kind::broadcast:
      return on_gpu.broadcast(part.output(), exercise.root, stream);
    case Kind::all_gather:
      return on_gpu.all_gather(part.input(), part.output(), stream);
    case Kind::reduce_scatter:
      return on_gpu.reduce_scatter(part.input(), part.output(), stream, exercise.op, options);
    case Kind::all_to_all:
      return on_gpu.all_to_all(part.input(), part.output(), stream);
    default:
      FAIL() << "rank " << rank << ": no such exercise";
  }
}

class StagedInWorldsOf : public ::testing::TestWithParam<int> {
 protected:
  // All exercises in a row by each rank, on one stream of its own; only then are the results looked at.
  void expect_right(const std::vector<Exercise>& exercises) {
    run_world(GetParam(), [&](World& world) {
      const auto on_gpu = staged(world);
      const Stream stream = make_stream(fake::device(world.rank() % 2));
      std::vector<std::unique_ptr<Part>> parts;
      for (Exercise exercise : exercises) {
        exercise.world = world.size();
        parts.push_back(std::make_unique<Part>(exercise, world.rank()));
        carry_out(*on_gpu, world.rank(), exercise, *parts.back(), stream.get());
      }
      fake::finish(stream.get());
      for (std::size_t k = 0; k < parts.size(); k++)
        EXPECT_EQ(parts[k]->wrong(), "") << describe(exercises[k]) << ", rank " << world.rank();
    });
    EXPECT_EQ(fake::alive(), 0);
  }
};

TEST_P(StagedInWorldsOf, sizes_around_segments_and_slots) {
  std::vector<Exercise> all;
  for (const std::uint64_t count : {0, 1, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 500})
    for (const bool in_place : {false, true})
      for (const Kind kind :
           {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all}) {
        const bool parts = kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::all_to_all;
        if (in_place ? parts : kind == Kind::broadcast) continue;
        all.push_back(
            {.kind = kind, .count = count, .root = GetParam() - 1, .in_place = in_place || kind == Kind::broadcast});
      }
  expect_right(all);
}

TEST_P(StagedInWorldsOf, all_types_and_reductions) {
  std::vector<Exercise> all;
  for (int dtype = int(DType::f16); dtype <= int(DType::boolean); dtype++)
    for (int op = int(Op::sum); op <= int(Op::bit_xor); op++)
      if (can_reduce(DType(dtype), Op(op))) all.push_back({.op = Op(op), .dtype = DType(dtype), .count = 100});
  expect_right(all);
}

TEST_P(StagedInWorldsOf, wire_types_and_factors) {
  expect_right({{.count = 100, .wire = DType::f16}, {.count = 100, .prescale = 2, .postscale = 0.5}});
}
INSTANTIATE_TEST_SUITE_P(Ranks, StagedInWorldsOf, ::testing::Values(1, 2, 4));

TEST(Staged, waits_for_what_was_queued_and_is_waited_for) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world);
    const Stream stream = make_stream(fake::device());
    std::vector<int> values(1000), seen;
    for (int round = 1; round <= 5; round++) {
      fake::queue(stream.get(), [&, round] {
        std::this_thread::sleep_for(milliseconds(5));
        values.assign(values.size(), round);
      });
      on_gpu->allreduce(values, values, stream.get());
      fake::queue(stream.get(), [&] { seen = values; });
      fake::finish(stream.get());
      EXPECT_EQ(seen, std::vector<int>(1000, 2 * round));
    }
  });
}

// Who only receives copies nothing from the device, and has to wait all the same.
TEST(Staged, a_received_tensor_does_not_overtake_what_was_queued) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world);
    const Stream stream = make_stream(fake::device());
    for (int round = 1; round <= 5; round++) {
      std::vector<int> values(100, round);
      fake::queue(stream.get(), [&] {
        if (world.rank() == 0) return;
        std::this_thread::sleep_for(milliseconds(10));
        values.assign(values.size(), -1);
      });
      on_gpu->broadcast(values, 0, stream.get());
      fake::finish(stream.get());
      EXPECT_EQ(values, std::vector<int>(100, round));
    }
  });
}

TEST(Staged, a_call_that_fails_on_the_device_ends_the_world_and_says_which) {
  for (const char* call : {"copy", "event_record", "stream_wait", "event_query"}) {
    for (const int after : {0, 7, 20}) {
      const std::vector<Told> told = told_on_all_ranks(3, [&](World& world) {
        const auto on_gpu = staged(world);
        std::vector<int> values(1000, 1);
        if (world.rank() == 1) fake::fail(call, after);
        try {
          on_gpu->allreduce(values, values, nullptr);
        } catch (const Error&) {
          fake::recover();
          const std::vector<int> as_it_was = values;
          fake::settle_down();
          EXPECT_EQ(values, as_it_was) << "copies go on after " << call << " " << after;
          throw;
        }
      });
      EXPECT_EQ(told[1].error->code(), Code::device) << call << " " << after;
      EXPECT_THAT(told[1].error->message(), HasSubstr("GPU 1")) << call;
      for (const int other : {0, 2}) {
        EXPECT_EQ(told[other].error->code(), Code::aborted) << call << " " << after;
        EXPECT_THAT(told[other].error->message(), HasSubstr("the fake is broken")) << call;
      }
      EXPECT_EQ(fake::alive(), 0);
    }
  }
}

TEST(Staged, a_device_that_hangs_is_given_up_after_the_limit) {
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Told> told = told_on_all_ranks(2, [&](World& world) {
    const auto on_gpu = staged(world, {kSegmentBytes, milliseconds(100)});
    std::vector<int> values(1000, 1);
    on_gpu->allreduce(values, values, nullptr);
    world.barrier();
    if (world.rank() == 0) fake::hang();
    world.barrier();
    on_gpu->allreduce(values, values, nullptr);
  });
  fake::recover();
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(5000));
  for (const Told& each : told) EXPECT_THAT(each.error->message(), HasSubstr("took more than 100 ms"));
  EXPECT_EQ(fake::alive(), 0);
}

TEST(Staged, tensors_that_do_not_match_leave_the_world_untouched) {
  run_world(2, [&](World& world) {
    const auto on_gpu = staged(world);
    std::vector<int> three(3, 1), four(4);
    EXPECT_THROW(on_gpu->allreduce(three, four, nullptr), Error);
    on_gpu->allreduce(three, three, nullptr);
    fake::finish(nullptr);
    EXPECT_EQ(three, std::vector<int>(3, 2));
  });
}

TEST(Owners, let_go_once_and_move) {
  {
    Stream one = make_stream(fake::device());
    Stream two = std::move(one);
    EXPECT_FALSE(one);
    EXPECT_TRUE(two);
    one = make_stream(fake::device());
    EXPECT_EQ(fake::alive(), 2);
    one = std::move(two);
    const DeviceMemory memory = make_memory(fake::device(1), 100);
    int owner = -1;
    fake::table().device_of(static_cast<const char*>(memory.get()) + 99, &owner);
    EXPECT_EQ(owner, 1);
    fake::table().get_device(&owner);
    EXPECT_EQ(owner, 0) << "the current device is as it was";
  }
  EXPECT_EQ(fake::alive(), 0);
}

TEST(Owners, that_cannot_be_made_say_why) {
  fake::fail("pinned_create");
  try {
    make_pinned(fake::device(1), 100);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::device);
    EXPECT_STREQ(error.what(), "GPU 1: making room for 100 bytes of pinned host memory: the fake is broken");
  }
  fake::recover();
  EXPECT_THROW(make_stream(fake::device(7)), Error);
}

}  // namespace
}  // namespace anello::gpu
