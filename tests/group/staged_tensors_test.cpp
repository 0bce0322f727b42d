// Allreduces of tensors in ordinary memory. Ranks that share memory and two cores carry them out through stages. Over
// TCP, the same calls are carried out by algorithms.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "ring/base/element_types.hpp"
#include "tests/group/in_groups.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

// All threads of the process may use two cores only.
class StagedTensors : public ::testing::Test {
 protected:
  StagedTensors() {
    sched_getaffinity(0, sizeof all_, &all_);
    cpu_set_t two;
    CPU_ZERO(&two);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&two) < 2; core++)
      if (CPU_ISSET(core, &all_)) CPU_SET(core, &two);
    sched_setaffinity(0, sizeof two, &two);
  }
  ~StagedTensors() override { sched_setaffinity(0, sizeof all_, &all_); }

 private:
  cpu_set_t all_{};
};

constexpr std::array<std::uint64_t, 3> kStagedBytes{150'000, 131'072, 400'016};  // some slabs, and parts of one

TEST_F(StagedTensors, AreReducedByEveryReductionOfEveryType) {
  for (const int ranks : {3, 5})
    run_world(ranks, [](World& world) {
      std::size_t n = 0;
      for (const DType dtype : kElementTypes)
        for (int op = int(Op::sum); op <= int(Op::bit_xor); op++) {
          if (!can_reduce(dtype, Op(op))) continue;
          const Exercise exercise{.op = Op(op),
                                  .dtype = dtype,
                                  .count = kStagedBytes[n++ % kStagedBytes.size()] / size_bytes(dtype),
                                  .in_place = n % 2 == 1};
          EXPECT_EQ(carry_out(world, exercise), "");
        }
    });
}

TEST_F(StagedTensors, AreScaledAsOthersAre) {
  run_world(3, [](World& world) {
    for (const DType dtype : {DType::f16, DType::f32, DType::f64})
      for (const Op op : {Op::sum, Op::average})
        for (const bool in_place : {false, true})
          EXPECT_EQ(carry_out(world, {.op = op,
                                      .dtype = dtype,
                                      .count = 100'003,
                                      .in_place = in_place,
                                      .prescale = in_place ? 2. : 1.,
                                      .postscale = in_place ? 0.5 : 2.}),
                    "");
  });
}

// By an algorithm, each rank's chunk would be added up in another order. A large number absorbs the 1.
TEST_F(StagedTensors, AreAddedUpInRankOrder) {
  Settings settings = Settings::from_environment();
  settings.transport = "shm";
  const auto add_up = [](World& world) {
    const int last = world.size() - 1;
    const float mine = world.rank() == 0 ? 1e30F : world.rank() == last ? -1e30F : 1.F;
    std::vector<float> values(100'000, mine);
    world.allreduce(values);
    EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0; }));
  };
  for (const int ranks : {3, 4, 8}) run_world(ranks, add_up, settings);
}

// A rank ends its group while other ranks may still read the sums that this rank has made.
TEST_F(StagedTensors, AreReducedInGroupsThatEndAtOnce) {
  run_world(4, [](World& world) {
    for (int round = 0; round < 30; round++) {
      std::vector<float> values(50'000 + 1000 * std::size_t(round), float(world.rank() + round));
      world.group({0, 1, 2, 3}).allreduce(values);
      EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == float(6 + 4 * round); })) << round;
    }
  });
}

TEST_F(StagedTensors, AreReducedInSeveralGroupsAtATime) {
  reduce_in_several_groups<std::vector<float>>(40'000);
}

TEST_F(StagedTensors, AreGivenUpWhenARankAborts) {
  abort_at_every_moment<std::vector<float>>();
}

}  // namespace
}  // namespace anello::group
