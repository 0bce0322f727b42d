// The wrapped optimizer, the metrics and require_equal(), in worlds of threads.
#include "trainer/data_parallel.hpp"

#include <gmock/gmock.h>

#include <anello/testing.hpp>
#include <atomic>
#include <cmath>
#include <functional>

#include "trainer/metrics.hpp"
#include "trainer/require_equal.hpp"

namespace anello::trainer {
namespace {

using testing::HasSubstr;

constexpr std::size_t kParameters = 1000;

// The sum that rank r has made over its r samples.
float gradient_sum(int rank, std::size_t i) {
  return float(rank) * std::sin(float(i) + float(rank));
}

// Divides it into two parts.
std::vector<Gradient> parts_of(std::vector<float>& gradient) {
  const auto all = std::span(gradient);
  return {{"first", all.first(all.size() / 2)}, {"second", all.subspan(all.size() / 2)}};
}

void step(DataParallel& optimizer, double rate) {
  optimizer.begin();
  optimizer.ready(1);
  optimizer.ready(0);
  optimizer.step(rate, 1);
}

void expect_average(int ranks, std::string_view compression, float tolerance) {
  const auto samples = std::size_t(ranks * (ranks - 1) / 2);
  run_world(ranks, [&](World& world) {
    const auto device = make_host_device(world);
    std::vector<float> parameters(kParameters, 1), gradient(kParameters);
    DataParallel optimizer(world, *device, parameters, gradient, parts_of(gradient),
                           make_optimizer("sgd", device->backend(), kParameters),
                           {.global_batch = samples, .wire = wire_type(compression)});
    for (std::size_t i = 0; i < kParameters; i++) gradient[i] = gradient_sum(world.rank(), i);
    step(optimizer, 0.5);
    for (std::size_t i = 0; i < kParameters; i++) {
      double sum = 0;
      for (int rank = 0; rank < ranks; rank++) sum += gradient_sum(rank, i);
      ASSERT_NEAR(gradient[i], sum / double(samples), tolerance) << i;
      ASSERT_NEAR(parameters[i], 1 - 0.5 * gradient[i], 1e-6) << i;
    }
    EXPECT_GT(optimizer.communication().exposed_seconds, 0);
    require_equal(world, std::uint64_t(std::bit_cast<std::uint32_t>(parameters[17])), "parameter 17");
  });
}

TEST(DataParallel, AveragesOverSamplesNotRanks) {
  for (const int ranks : {2, 3, 4}) expect_average(ranks, "none", 1e-6F);
}

TEST(DataParallel, AveragesCompressed) {
  expect_average(3, "fp16", 3e-3F);
  expect_average(3, "bf16", 2e-2F);
}

// Sums over a large batch do not fit into half precision, but their averages do.
TEST(DataParallel, DividesBeforeItCompresses) {
  run_world(2, [](World& world) {
    const auto device = make_host_device(world);
    std::vector<float> parameters(2), gradient = {3e6F, 3e6F};
    DataParallel optimizer(world, *device, parameters, gradient, parts_of(gradient),
                           make_optimizer("sgd", device->backend(), 2), {.global_batch = 1000000, .wire = DType::f16});
    step(optimizer, 1);
    EXPECT_EQ(gradient[0], 6);
  });
}

TEST(DataParallel, StateIsTheOptimizers) {
  run_world(1, [](World& world) {
    const auto device = make_host_device(world);
    std::vector<float> parameters(5), gradient(5);
    DataParallel optimizer(world, *device, parameters, gradient, parts_of(gradient),
                           make_optimizer("adam", device->backend(), 5), {});
    EXPECT_EQ(optimizer.state().size(), 2U);
  });
}

TEST(Metrics, WeighBySamples) {
  run_world(3, [](World& world) {
    Metrics metrics;
    const auto samples = std::size_t(world.rank());  // rank 0 has none
    metrics.add({.loss = 2.0 * double(samples * samples), .correct = samples / 2}, samples);
    metrics.seconds = 1;
    metrics.exposed_seconds = 0.1 * world.rank();
    metrics.steps = 2;
    const Metrics all = metrics.over_ranks(world);
    EXPECT_DOUBLE_EQ(all.loss(), (2.0 + 8.0) / 3);
    EXPECT_DOUBLE_EQ(all.accuracy(), 1.0 / 3);
    EXPECT_NEAR(all.exposed_share(), 0.1, 1e-12);
    EXPECT_EQ(all.steps, 6);
  });
}

// For any number of ranks, the sum of the residuals is kept. If the number of ranks is unchanged, each rank gets its
// own residuals back.
TEST(DataParallel, ResidualsComeBack) {
  Residuals saved;
  float sum = 0;
  const auto go = [&](int ranks, bool first) {
    run_world(ranks, [&](World& world) {
      const auto device = make_host_device(world);
      std::vector<float> parameters(3), gradient(3, 1.0F / float(3 + world.rank()));
      DataParallel optimizer(world, *device, parameters, gradient, parts_of(gradient),
                             make_optimizer("sgd", device->backend(), 3), {.wire = DType::f16, .error_feedback = true});
      if (first) step(optimizer, 1);
      if (!first) optimizer.scatter_residuals(world.rank() == 0 ? saved : Residuals{});
      const Residuals now = optimizer.gather_residuals();
      EXPECT_EQ(now.size(), world.rank() == 0 ? std::size_t(ranks) : 0U);
      if (world.rank() != 0) return;
      float total = 0;
      for (const auto& residual : now) total += residual[0];
      if (first) {
        saved = now;
        sum = total;
      }
      EXPECT_NE(total, 0);
      EXPECT_NEAR(total, sum, 1e-5 * std::abs(sum)) << ranks;
      EXPECT_TRUE(ranks != 4 || now == saved);
    });
  };
  go(4, true);
  for (const int ranks : {4, 3, 2, 1, 6}) go(ranks, false);
}

TEST(DataParallel, NoResidualsWithoutFeedback) {
  run_world(2, [](World& world) {
    const auto device = make_host_device(world);
    std::vector<float> parameters(3), gradient(3);
    DataParallel optimizer(world, *device, parameters, gradient, parts_of(gradient),
                           make_optimizer("sgd", device->backend(), 3), {.wire = DType::f16});
    optimizer.scatter_residuals({{1, 2, 3}});
    EXPECT_TRUE(optimizer.gather_residuals().empty());
  });
}

const Facts kUsualOptions = {{"--seed", "1"}, {"--lr", "0.005"}, {"--epochs", "3"}};
const Facts kOtherOptions = {{"--seed", "2"}, {"--lr", "0.1"}, {"--epochs", "3"}};

void expect_mismatch(const std::function<void()>& call, int rank, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    std::string message = error.what();  // without hosts
    for (std::size_t at; (at = message.find(" (")) != std::string::npos;)
      message.erase(at, message.find(')', at) + 1 - at);
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_EQ(error.rank(), rank);
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(RequireEqual, NamesOptionsValuesRanksAndHosts) {
  run_world(4, [](World& world) {
    EXPECT_NO_THROW(require_equal(world, kUsualOptions));
    const auto compare = [&] { require_equal(world, world.rank() % 2 == 1 ? kOtherOptions : kUsualOptions); };
    expect_mismatch(compare, -1,  // either half may be wrong
                    "training options differ: ranks 1, 3 have --seed 2 and --lr 0.1, ranks 0, 2 have --seed 1 and "
                    "--lr 0.005; give all ranks the same");
    const std::string host = " (" + world.host(0) + ")";
    EXPECT_THAT([&] { compare(); },
                testing::ThrowsMessage<Error>(HasSubstr("ranks 1" + host + ", 3" + host + " have")));
  });
}

TEST(RequireEqual, TheOddRankIsAtFaultWhereverItIs) {
  for (const int ranks : {3, 4, 5})
    run_world(ranks, [&](World& world) {
      for (int odd = 0; odd < ranks; odd++) {
        const std::string who = " differ: rank " + std::to_string(odd) + " has ";
        const bool is_odd = world.rank() == odd;
        expect_mismatch([&] { require_equal(world, is_odd ? kOtherOptions : kUsualOptions); }, odd,
                        "training options" + who + "--seed 2 and --lr 0.1, ranks ");
        expect_mismatch([&] { require_equal(world, is_odd ? 0xabc : 0xdef, "training data"); }, odd,
                        "training data" + who + "0000000000000abc, ranks ");
      }
    });
}

}  // namespace
}  // namespace anello::trainer
