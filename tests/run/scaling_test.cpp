// Averages and factors ride along with a reduction, to the bits of a reduction with a pass over all results behind it.
#include <gtest/gtest.h>

#include <cstring>

#include "ring/algorithms/plans.hpp"
#include "ring/base/text.hpp"
#include "tests/support/scenario.hpp"

namespace anello::run {
namespace {

template <class T>
using Tensors = std::vector<std::vector<T>>;  // by rank

template <class T>
Buffer buffer(std::vector<T>& elements) {
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size()};
}

// One allreduce, in place or not, by these plans.
struct Reduction {
  std::vector<plan::Plan> plans;
  bool in_place;
  std::uint64_t seed;

  template <class T>
  Tensors<T> of(Tensors<T> in, const Scaling& scaling) const {
    Random random(seed);
    Tensors<T> out = in;
    std::vector<std::vector<Task>> program(in.size());
    for (std::size_t r = 0; r < in.size(); r++)
      program[r].push_back({&plans[r],
                            arithmetic(dtype_of<T>(), Op::sum),
                            buffer(in_place ? out[r] : in[r]),
                            buffer(out[r]),
                            {},
                            scaling});
    Simulation simulation(program, draw_weather(random), {}, seed);
    EXPECT_TRUE(simulation.run().all_done);
    return out;
  }
};

template <class T>
T number(Random& random) {
  if constexpr (std::is_integral_v<T>)
    return T(random.below(2000)) - T(1000);
  else
    return T(float(random.below(1 << 20)) / 512 - 1000);
}

template <class T>
Bytes bytes_of(std::vector<T>& elements) {
  return std::as_writable_bytes(std::span(elements));
}

template <class T>
void compare_with_a_pass(Algorithm algorithm, int world, std::uint64_t seed) {
  constexpr DType kType = dtype_of<T>();
  Random random(seed);
  const std::uint64_t count = random.percent(30) ? std::uint64_t(world) : random.from(1, 300);
  const std::uint64_t slab = draw_slab(count, random);
  Reduction reduction{{}, random.percent(50), seed};
  Tensors<T> in(static_cast<std::size_t>(world), std::vector<T>(count));
  const double factor = is_float(kType) ? 0.7 : 1;
  for (int rank = 0; rank < world; rank++) {
    reduction.plans.push_back(algorithms::plan_allreduce(algorithm, {rank, world, count}, slab));
    for (T& x : in[std::size_t(rank)]) x = number<T>(random);
  }
  Tensors<T> along = reduction.of(in, scaling(kType, world, factor));
  Tensors<T> sums = reduction.of(in, {});
  for (std::size_t r = 0; r < in.size(); r++) {
    scaling(kType, world, 1).apply(sums[r].data(), sums[r].size());
    if (is_float(kType)) scale(kType, bytes_of(sums[r]), bytes_of(sums[r]), factor);
    ASSERT_EQ(std::memcmp(along[r].data(), sums[r].data(), bytes_of(along[r]).size()), 0)
        << name(kType) << ", rank " << r << " of " << world << ", " << count << " elements in slabs of " << slab
        << (reduction.in_place ? ", in place" : "");
  }
}

class ScalingBy : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(All, ScalingBy, testing::ValuesIn(all_algorithms().begin(), all_algorithms().end()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(ScalingBy, RidesAlongToTheBitsOfAPass) {
  for (const std::uint64_t seed : seeds(8))
    for (int world = 1; world <= 9; world++) {
      SCOPED_TRACE(replay(seed));
      compare_with_a_pass<float>(GetParam(), world, 4 * seed);
      compare_with_a_pass<bf16>(GetParam(), world, 4 * seed + 1);
      compare_with_a_pass<f16>(GetParam(), world, 4 * seed + 2);
      compare_with_a_pass<std::int32_t>(GetParam(), world, 4 * seed + 3);
      if (HasFailure()) return;
    }
}

// What is rounded to travel is the quotient.
TEST(Scaling, IsAppliedBeforeResultsAreRoundedToTravel) {
  constexpr std::uint64_t kCount = 20'001;
  Tensors<float> in(2, std::vector<float>(kCount)), out = in;
  std::vector<std::vector<Task>> program(2);
  std::vector<plan::Plan> plans;
  for (int rank = 0; rank < 2; rank++) plans.push_back(algorithms::plan_allreduce(Algorithm::ring, {rank, 2, kCount}));
  for (std::size_t r = 0; r < 2; r++) {
    for (std::uint64_t i = 0; i < kCount; i++) in[r][i] = float(i % 1001) + float(r);
    program[r].push_back({&plans[r],
                          arithmetic(DType::f32, Op::sum, DType::bf16),
                          buffer(in[r]),
                          buffer(out[r]),
                          {},
                          scaling(DType::f32, 3, 1)});
  }
  Simulation simulation(program, {.capacity_bytes = 1 << 20}, {}, 1);
  ASSERT_TRUE(simulation.run().all_done);
  const auto sent = [](float x) { return float(bf16(x)); };
  for (std::uint64_t i = 0; i < kCount; i++) {
    ASSERT_EQ(out[0][i], sent((sent(in[0][i]) + sent(in[1][i])) / 3)) << "element " << i;
    ASSERT_EQ(out[1][i], out[0][i]) << "element " << i;
  }
}

}  // namespace
}  // namespace anello::run
