// Every collective over simulated links, under all conditions of links and ranks: results are exact, no memory beside
// them is written, and no bytes are left on a link.
#include "tests/support/simulation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ring/run/checksum.hpp"
#include "tests/support/scenario.hpp"

namespace anello::run {
namespace {

void expect_success(Scenario& scenario, std::uint64_t seed) {
  Simulation simulation(scenario.program, scenario.weather, {}, seed, scenario.groups);
  const Simulation::Outcome outcome = simulation.run();
  EXPECT_TRUE(outcome.all_done) << (outcome.stuck ? "stuck" : outcome.error->what());
  EXPECT_EQ(outcome.bytes_left, 0);
  EXPECT_EQ(scenario.wrong(outcome), "");
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, testing::ValuesIn(all_algorithms().begin(), all_algorithms().end()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(EveryAlgorithm, ReducesInEveryWorld) {
  for (const std::uint64_t seed : seeds(16))
    for (const int world : kWorlds) {
      Random random(seed * 100 + std::uint64_t(world));
      Scenario scenario(world, random);
      const Exercise exercise = scenario.draw_exercise(Kind::allreduce, random);
      scenario.add(exercise, GetParam(), draw_slab(exercise.count, random), random);
      SCOPED_TRACE(replay(seed) + "\n" + scenario.description());
      expect_success(scenario, seed);
      if (HasFailure()) return;
    }
}

// bf16 has a precision of 8 bits, and a number is rounded on each rank that it passes.
void expect_near_sum(const std::vector<std::vector<float>>& in, const std::vector<float>& out) {
  for (std::size_t i = 0; i < out.size(); i++) {
    double sum = 0;
    for (const auto& each : in) sum += double(each[i]);
    ASSERT_NEAR(double(out[i]), sum, double(in.size()) * sum / 256) << "element " << i;
  }
}

// The input is random floats, whose sum depends on the order. Expects equal bits on all ranks, and the sum in rank
// order if this order is guaranteed.
void add_up_floats(Algorithm algorithm, int world, std::uint64_t seed, DType wire = DType::f32) {
  Random random(seed);
  const std::uint64_t count = random.from(1, 300), slab = draw_slab(count, random);
  std::vector<std::vector<float>> in(static_cast<std::size_t>(world), std::vector<float>(count)), out = in;
  std::vector<plan::Plan> plans;
  std::vector<std::vector<Task>> program(in.size());
  for (int rank = 0; rank < world; rank++)
    plans.push_back(algorithms::plan_allreduce(algorithm, {.rank = rank, .world = world, .count = count}, slab));
  const auto buffer = [](std::vector<float>& v) { return Buffer(reinterpret_cast<std::byte*>(v.data()), v.size()); };
  for (std::size_t r = 0; r < in.size(); r++) {
    for (float& x : in[r]) x = std::ldexp(float(random.below(1 << 24)), int(random.below(30)) - 15);
    program[r].push_back({&plans[r], arithmetic(DType::f32, Op::sum, wire), buffer(in[r]), buffer(out[r]), {}});
  }
  Simulation simulation(program, draw_weather(random), {}, seed);
  ASSERT_TRUE(simulation.run().all_done);

  const bool known = reproducible(algorithm) && wire == DType::f32;
  std::vector<float> expected = known ? in[0] : out[0];
  for (std::size_t r = 1; known && r < in.size(); r++)
    for (std::size_t i = 0; i < count; i++) expected[i] += in[r][i];
  for (std::size_t r = 0; r < out.size(); r++)
    EXPECT_EQ(std::memcmp(out[r].data(), expected.data(), count * sizeof(float)), 0) << "rank " << r;
  if (wire == DType::bf16) expect_near_sum(in, out[0]);
}

TEST_P(EveryAlgorithm, AddsFloatsToEqualBits) {
  for (const std::uint64_t seed : seeds(8))
    for (const int world : kWorlds) {
      SCOPED_TRACE(text(replay(seed), ", ", world, " ranks"));
      add_up_floats(GetParam(), world, seed * 100 + std::uint64_t(world));
      if (HasFailure()) return;
    }
}

// Also checks that no element differs from the sum by more than the roundings allow.
TEST_P(EveryAlgorithm, AddsFloatsThatTravelIn16BitsToEqualBits) {
  for (const std::uint64_t seed : seeds(8))
    for (const int world : kWorlds) {
      SCOPED_TRACE(text(replay(seed), ", ", world, " ranks"));
      add_up_floats(GetParam(), world, seed * 100 + std::uint64_t(world), DType::bf16);
      if (HasFailure()) return;
    }
}

// Returns the result of one world whose input is random bytes, which are numbers of every kind.
std::vector<std::vector<std::byte>> reduce_bytes(Algorithm algorithm, int world, std::uint64_t count, DType dtype,
                                                 Op op, const Weather& weather, std::uint64_t seed) {
  Random random(seed);
  const bool averages = op == Op::average;
  const Scaling scale = scaling(dtype, averages ? world : 1, averages && is_float(dtype) ? 3 : 1);
  std::vector<std::vector<std::byte>> tensors(std::size_t(world), std::vector<std::byte>(count * size_bytes(dtype)));
  std::vector<plan::Plan> plans;
  for (int rank = 0; rank < world; rank++)
    plans.push_back(algorithms::plan_allreduce(algorithm, {.rank = rank, .world = world, .count = count}));
  std::vector<std::vector<Task>> program(tensors.size());
  for (std::size_t r = 0; r < tensors.size(); r++) {
    for (std::byte& byte : tensors[r]) byte = std::byte(random.below(256));
    const Buffer buffer(tensors[r].data(), count);
    program[r].push_back({&plans[r], arithmetic(dtype, op), buffer, buffer, {}, scale});
  }
  Simulation simulation(program, weather, {}, seed);
  EXPECT_TRUE(simulation.run().all_done);
  return tensors;
}

// If both are NaN, their bits may differ.
bool are_alike(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  const auto sum = [&](const std::vector<std::byte>& bytes) {
    const Buffer buffer(const_cast<std::byte*>(bytes.data()), bytes.size() / size_bytes(dtype));
    return checksum(dtype, buffer, bytes.size() / size_bytes(dtype), Nans::alike);
  };
  return sum(a) == sum(b);
}

TEST_P(EveryAlgorithm, MakesTheSameBitsMessageByMessage) {
  constexpr std::array kOps{Op::sum, Op::average, Op::product, Op::max};
  constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8};
  for (const std::uint64_t seed : seeds(40)) {
    Random random(seed);
    const int world = random.percent(20) ? 21 : random.one_of(kWorlds);  // in a grid, 21 ranks fold twice
    const Op op = random.one_of(kOps);
    const DType dtype = random.one_of(kTypes);
    const std::uint64_t count = random.from(1, MessageExecution::kMaxDataBytes / size_bytes(dtype));
    Weather weather = draw_weather(random);
    SCOPED_TRACE(text(replay(seed), ", ", world, " ranks, ", count, " ", name(dtype), " ", name(op)));
    weather.by_message_percent = 0;
    const auto expected = reduce_bytes(GetParam(), world, count, dtype, op, weather, seed);
    weather.by_message_percent = 100;
    const auto made = reduce_bytes(GetParam(), world, count, dtype, op, weather, seed);
    for (std::size_t r = 0; r < made.size(); r++) ASSERT_TRUE(are_alike(made[r], expected[r], dtype)) << "rank " << r;
  }
}

class EveryCollective : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, EveryCollective,
                         testing::Values(Kind::broadcast, Kind::allgather, Kind::reduce_scatter, Kind::barrier,
                                         Kind::reduce, Kind::gather, Kind::scatter));

TEST_P(EveryCollective, IsRightInEveryWorld) {
  for (const std::uint64_t seed : seeds(16))
    for (const int world : kWorlds) {
      Random random(seed * 100 + std::uint64_t(world));
      Scenario scenario(world, random);
      const Exercise exercise = scenario.draw_exercise(GetParam(), random);
      scenario.add(exercise, draw_algorithm(random), draw_slab(exercise.count, random), random);
      SCOPED_TRACE(replay(seed) + "\n" + scenario.description());
      expect_success(scenario, seed);
      if (HasFailure()) return;
    }
}

// Ranks that are done go on to the next operation, on the same links.
TEST(Simulation, OperationsFollowEachOtherWithoutAGap) {
  for (const std::uint64_t seed : seeds(160)) {
    Random random(seed);
    Scenario scenario(random.one_of(kWorlds), random);
    for (std::uint64_t k = random.from(2, 6); k > 0; k--) scenario.add_any(random);
    SCOPED_TRACE(replay(seed) + "\n" + scenario.description());
    expect_success(scenario, seed);
    if (HasFailure()) return;
  }
}

// Some operations block. Others are started, and go on at the same time as later operations in other groups.
TEST(Simulation, ProgramsInGroupsComeToTheirEnd) {
  for (const std::uint64_t seed : seeds(2000)) {
    Random random(seed);
    Scenario scenario(int(random.from(2, 7)), random);
    for (std::uint64_t k = random.from(1, 4); k > 0; k--) scenario.add_group(random);
    for (std::uint64_t k = random.from(2, 14); k > 0; k--) scenario.add_any_in_a_group(random);
    SCOPED_TRACE(replay(seed) + "\n" + scenario.description());
    expect_success(scenario, seed);
    if (HasFailure()) return;
  }
}

// Two ranks that block in two groups in opposite order wait for each other: the simulation must detect that.
TEST(Simulation, OppositeOrdersOfBlockingCallsAreStuck) {
  for (const bool blocks : {true, false}) {
    Random random(1);
    Scenario scenario(2, random);
    scenario.groups.push_back({1, 0});
    Exercise barrier;
    barrier.kind = Kind::barrier;
    barrier.world = 2;
    barrier.dtype = DType::u8;
    barrier.count = 1;
    StagedOperation first(barrier, Algorithm::automatic, 0, 0, random),
        second(barrier, Algorithm::automatic, 0, 0, random);
    const auto in = [&](std::size_t group, Task task) {
      task.group = group;
      task.blocks = blocks;
      return task;
    };
    const std::vector<std::vector<Task>> program{{in(0, first.task(0)), in(1, second.task(1))},
                                                 {in(1, second.task(0)), in(0, first.task(1))}};
    const Simulation::Outcome outcome = Simulation(program, {}, {}, 1, scenario.groups).run();
    EXPECT_EQ(outcome.stuck, blocks);
    EXPECT_EQ(outcome.all_done, !blocks);
  }
}

TEST(Simulation, ABarrierIsNotLeftBeforeEverybodyHasCome) {
  for (const std::uint64_t seed : seeds(50)) {
    Random random(seed);
    Scenario scenario(int(random.from(2, 9)), random);
    const auto late = random.below(std::uint64_t(scenario.world));
    for (int k = 0; k < 3; k++) {
      Exercise barrier;
      barrier.kind = Kind::barrier;
      barrier.world = scenario.world;
      barrier.dtype = DType::u8;
      barrier.count = 1;
      scenario.add(barrier, Algorithm::automatic, 0, random);
    }
    scenario.program[late].resize(1);  // takes part in the first only
    SCOPED_TRACE(replay(seed));
    Simulation simulation(scenario.program, scenario.weather, {}, seed);
    const Simulation::Outcome outcome = simulation.run();
    EXPECT_TRUE(outcome.stuck);
    for (const std::size_t completed : outcome.completed) EXPECT_EQ(completed, 1);
    if (HasFailure()) return;
  }
}

TEST(Simulation, TheSameSeedGivesTheSameWorld) {
  const auto run = [] {
    Random random(7);
    Scenario scenario(5, random);
    for (int k = 0; k < 3; k++) scenario.add_any(random);
    Simulation simulation(scenario.program, scenario.weather, {Fault::Kind::drop, 1, 2, 100}, 7);
    const Simulation::Outcome outcome = simulation.run();
    return std::tuple(outcome.completed, outcome.noticed_by, outcome.bytes_left);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace anello::run
