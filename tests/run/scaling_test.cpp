// Averages and factors are applied during a reduction. The bits must be those of a separate pass over all inputs or
// results.
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

// One allreduce by these plans, in place or out of place.
struct Reduction {
  std::vector<plan::Plan> plans;
  bool in_place;
  std::uint64_t seed;

  template <class T>
  Tensors<T> of(Tensors<T> in, const Scaling& scaling, const std::vector<double>& prescales = {},
                DType wire = dtype_of<T>()) const {
    Random random(seed);
    Tensors<T> out = in;
    std::vector<std::vector<Task>> program(in.size());
    for (std::size_t r = 0; r < in.size(); r++)
      program[r].push_back({&plans[r],
                            arithmetic(dtype_of<T>(), Op::sum, wire),
                            buffer(in_place ? out[r] : in[r]),
                            buffer(out[r]),
                            {},
                            scaling,
                            prescales.empty() ? Scaling{} : run::scaling(dtype_of<T>(), 1, prescales[r])});
    Simulation simulation(program, draw_weather(random), {}, seed);
    const Tensors<T> before = in;
    EXPECT_TRUE(simulation.run().all_done);
    EXPECT_EQ(in, before) << "inputs have changed";
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

// Random plans and inputs.
template <class T>
struct Case {
  Case(Algorithm algorithm, int world, std::uint64_t seed) : in(static_cast<std::size_t>(world)) {
    Random random(seed);
    const std::uint64_t count = random.percent(30) ? std::uint64_t(world) : random.from(1, 300);
    const std::uint64_t slab = draw_slab(count, random);
    reduction = {{}, random.percent(50), seed};
    for (int rank = 0; rank < world; rank++)
      reduction.plans.push_back(algorithms::plan_allreduce(algorithm, {rank, world, count}, slab));
    for (std::vector<T>& one : in)
      for (std::uint64_t i = 0; i < count; i++) one.push_back(number<T>(random));
    description = text(name(dtype_of<T>()), ", ", world, " ranks, ", count, " elements in slabs of ", slab,
                       reduction.in_place ? ", in place" : "");
  }

  Reduction reduction{};
  Tensors<T> in;
  std::string description;
};

template <class T>
void expect_equal(const Tensors<T>& left, const Tensors<T>& right, const std::string& description) {
  for (std::size_t r = 0; r < left.size(); r++)
    ASSERT_EQ(std::memcmp(left[r].data(), right[r].data(), left[r].size() * sizeof(T)), 0)
        << description << ", rank " << r;
}

// Draws a division by the number of ranks, a factor, both, or neither.
Scaling draw_results(DType type, int world, std::uint64_t seed) {
  const double factor = is_float(type) ? 1.3 : 1;
  return scaling(type, seed % 2 == 0 ? 1 : world, seed % 4 < 2 ? 1 : factor);
}

template <class T>
void compare_with_a_pass_behind(Algorithm algorithm, int world, std::uint64_t seed) {
  constexpr DType kType = dtype_of<T>();
  const Case<T> drawn(algorithm, world, seed);
  const Scaling results = draw_results(kType, world, seed / 4);  // seeds of one type differ by four or five
  const Tensors<T> along = drawn.reduction.of(drawn.in, results);
  Tensors<T> sums = drawn.reduction.of(drawn.in, {});
  for (std::vector<T>& sum : sums) {
    scaling(kType, results.divisor, 1).apply(sum.data(), sum.size());
    if (is_float(kType)) scale(kType, bytes_of(sum), bytes_of(sum), results.factor);
  }
  expect_equal(along, sums, drawn.description);
}

template <class T>
void compare_with_a_pass_before(Algorithm algorithm, int world, std::uint64_t seed, DType wire = dtype_of<T>()) {
  const Case<T> drawn(algorithm, world, seed);
  Tensors<T> multiplied = drawn.in;
  std::vector<double> factors;  // each rank has its own, or none
  for (std::size_t r = 0; r < multiplied.size(); r++) {
    factors.push_back((seed + r) % 3 == 0 ? 1 : 0.7 + double(r));
    scale(dtype_of<T>(), bytes_of(multiplied[r]), bytes_of(multiplied[r]), factors[r]);
  }
  const Scaling results = draw_results(dtype_of<T>(), world, seed / 2);
  expect_equal(drawn.reduction.of(drawn.in, results, factors, wire), drawn.reduction.of(multiplied, results, {}, wire),
               drawn.description);
}

class ScalingBy : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(All, ScalingBy, testing::ValuesIn(all_algorithms().begin(), all_algorithms().end()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(ScalingBy, RidesAlongToTheBitsOfAPass) {
  for (const std::uint64_t seed : seeds(8))
    for (int world = 1; world <= 9; world++) {
      SCOPED_TRACE(replay(seed));
      compare_with_a_pass_behind<float>(GetParam(), world, 4 * seed);
      compare_with_a_pass_behind<double>(GetParam(), world, 5 * seed);
      compare_with_a_pass_behind<bf16>(GetParam(), world, 4 * seed + 1);
      compare_with_a_pass_behind<f16>(GetParam(), world, 4 * seed + 2);
      compare_with_a_pass_behind<std::int32_t>(GetParam(), world, 4 * seed + 3);
      if (HasFailure()) return;
    }
}

TEST_P(ScalingBy, OfInputsRidesAlongToTheBitsOfAPass) {
  for (const std::uint64_t seed : seeds(8))
    for (int world = 1; world <= 9; world++) {
      SCOPED_TRACE(replay(seed));
      compare_with_a_pass_before<float>(GetParam(), world, 3 * seed);
      compare_with_a_pass_before<double>(GetParam(), world, 5 * seed);
      compare_with_a_pass_before<f16>(GetParam(), world, 3 * seed + 1);
      compare_with_a_pass_before<float>(GetParam(), world, 5 * seed, DType::bf16);
      if (HasFailure()) return;
    }
}

// A result is divided first, and then rounded to the type in which it is sent.
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
