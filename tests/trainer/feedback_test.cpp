// Gradients so small that half precision loses them, like averages over a very large batch.
#include <gmock/gmock.h>

#include <anello/testing.hpp>
#include <numeric>

#include "trainer/data_parallel.hpp"
#include "trainer/dataset.hpp"
#include "trainer/model.hpp"
#include "trainer/sampler.hpp"

namespace anello::trainer {
namespace {

struct Rounding {
  std::optional<DType> wire;
  bool feedback;
};

// Trains on the digits with gradients and learning rate in other units: divided and multiplied by `smaller`. Without
// rounding this has no effect. Returns the accuracy on all test samples.
double accuracy(double smaller, const Rounding& rounding) {
  constexpr std::size_t kBatch = 64, kEpochs = 8;
  constexpr double kRate = 0.02;
  double reached = 0;
  run_world(2, [&](World& world) {
    const Dataset data = load_dataset("digits", ANELLO_TEST_DIGITS);
    const auto device = make_host_device(world);
    Model model(device->backend(), data.image_size(),
                make_mlp(data.image_size(), std::vector<std::size_t>{64}, data.classes), 1);
    const auto layers = model.layer_gradients();
    std::vector<Gradient> gradients;
    for (const auto& layer : layers) gradients.push_back({layer.name, layer.values});
    DataParallel optimizer(
        world, *device, model.parameters(), model.gradient(), gradients,
        make_optimizer("sgd", device->backend(), model.parameters().size()),
        {.global_batch = std::size_t(kBatch * smaller), .wire = rounding.wire, .error_feedback = rounding.feedback});
    Sampler sampler(data.train.size(), kBatch, "shard", 1, world.rank(), world.size());
    for (std::size_t epoch = 0; epoch < kEpochs; epoch++) {
      sampler.begin_epoch(epoch);
      for (std::size_t step = 0; step < sampler.steps(); step++) {
        optimizer.begin();
        model.train(
            data, data.train, sampler.share(step), [&](std::size_t k) { optimizer.ready(k); }, Model::Into::fresh);
        optimizer.step(kRate * smaller, step + 1);
      }
    }
    std::vector<std::uint32_t> all(data.test.size());
    std::iota(all.begin(), all.end(), 0U);
    model.take_score();
    model.evaluate(data, data.test, all);
    if (world.rank() == 0) reached = double(model.take_score().correct) / double(all.size());
  });
  return reached;
}

TEST(Feedback, KeepsTheAccuracyThatHalfPrecisionLoses) {
  constexpr double kUsual = 1, kTiny = 4e6;
  const Rounding half{DType::f16, false}, half_with_feedback{DType::f16, true};
  const double exact = accuracy(kTiny, {});
  EXPECT_GT(exact, 0.95);
  EXPECT_NEAR(accuracy(kUsual, half), exact, 0.005) << "gradients of usual size do not need it";
  EXPECT_LT(accuracy(kTiny, half), exact - 0.1);
  EXPECT_NEAR(accuracy(kTiny, half_with_feedback), exact, 0.01);
}

}  // namespace
}  // namespace anello::trainer
