// Compares the model's loss and gradient with a second, plain implementation of a perceptron in double, and with
// differences of its loss.
#include "trainer/model.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <cmath>
#include <numeric>

namespace anello::trainer {
namespace {

constexpr std::size_t kInputs = 6, kClasses = 4;
const std::vector<std::size_t> kHidden = {5, 3};

Dataset some_data(std::size_t samples) {
  Dataset data{"made up", 2, 3, kClasses, {}, {}};
  Random random(3, Stream::draws);
  for (std::size_t i = 0; i < samples * kInputs; i++) data.train.pixels.push_back(std::uint8_t(random.below(256)));
  for (std::size_t i = 0; i < samples; i++) data.train.labels.push_back(std::uint8_t(random.below(kClasses)));
  data.measure();
  return data;
}

std::vector<std::uint32_t> first(std::size_t count) {
  std::vector<std::uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

double plain_loss(const Dataset& data, std::size_t samples, const std::vector<double>& parameters) {
  double loss = 0;
  for (std::size_t sample = 0; sample < samples; sample++) {
    std::vector<double> values;
    for (std::size_t i = 0; i < kInputs; i++)
      values.push_back((data.train.pixels[sample * kInputs + i] - data.mean) / data.deviation);
    const double* weights = parameters.data();
    for (const std::size_t width : {kHidden[0], kHidden[1], kClasses}) {
      std::vector<double> next(width);
      for (std::size_t o = 0; o < width; o++) {
        next[o] = weights[width * values.size() + o];
        for (std::size_t i = 0; i < values.size(); i++) next[o] += weights[o * values.size() + i] * values[i];
      }
      weights += width * values.size() + width;
      if (width != kClasses)
        for (double& value : next) value = std::max(value, 0.0);
      values = next;
    }
    double total = 0;
    for (const double score : values) total += std::exp(score);
    loss += std::log(total) - values[data.train.labels[sample]];
  }
  return loss;
}

class ModelTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  Model model_{*backend_, kInputs, make_mlp(kInputs, kHidden, kClasses), 11};
  Dataset data_ = some_data(9);

  Score train(const std::vector<std::uint32_t>& samples, Model::Into into = Model::Into::fresh) {
    model_.take_score();
    model_.train(
        data_, data_.train, samples, [](std::size_t) {}, into);
    return model_.take_score();
  }
};

TEST_F(ModelTest, GradientIsThatOfThePlainLoss) {
  const Score score = train(first(9));
  std::vector<double> parameters(model_.parameters().begin(), model_.parameters().end());
  ASSERT_EQ(parameters.size(), 6U * 5 + 5 + 5 * 3 + 3 + 3 * 4 + 4);
  EXPECT_NEAR(score.loss, plain_loss(data_, 9, parameters), 1e-5 * score.loss);
  constexpr double kStep = 1e-6;
  double largest = 0;
  for (std::size_t i = 0; i < parameters.size(); i++) {
    const double here = parameters[i];
    parameters[i] = here + kStep;
    const double above = plain_loss(data_, 9, parameters);
    parameters[i] = here - kStep;
    const double below = plain_loss(data_, 9, parameters);
    parameters[i] = here;
    EXPECT_NEAR(model_.gradient()[i], (above - below) / (2 * kStep), 2e-5) << "parameter " << i;
    largest = std::max(largest, std::abs(double(model_.gradient()[i])));
  }
  EXPECT_GT(largest, 0.1);
}

TEST_F(ModelTest, GradientsOfPartsAddUp) {
  train(first(9));
  const std::vector<float> whole(model_.gradient().begin(), model_.gradient().end());
  std::vector<float> sum(whole.size());
  for (const auto& part : {std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}, {6, 7}, {8}}) {
    train(part);
    for (std::size_t i = 0; i < sum.size(); i++) sum[i] += model_.gradient()[i];
  }
  EXPECT_THAT(sum, testing::Pointwise(testing::FloatNear(1e-5F), whole));
  train({0, 1, 2, 3, 4, 5});
  train({6, 7}, Model::Into::sum);
  train({8}, Model::Into::sum);
  EXPECT_THAT(model_.gradient(), testing::Pointwise(testing::FloatNear(1e-5F), whole)) << "summed by the model";
}

// The last layer's gradient is announced first, and is complete by then.
TEST_F(ModelTest, SaysWhichGradientIsReady) {
  train(first(9));
  const std::vector<float> whole(model_.gradient().begin(), model_.gradient().end());
  const auto layers = model_.layer_gradients();
  ASSERT_EQ(layers.size(), 3U);
  std::size_t elems = 0;
  for (const auto& layer : layers) elems += layer.values.size();
  EXPECT_EQ(elems, whole.size());
  std::fill(model_.gradient().begin(), model_.gradient().end(), 99.0F);
  std::vector<std::size_t> ready;
  model_.train(data_, data_.train, first(9), [&](std::size_t k) {
    ready.push_back(k);
    const auto at = layers[k].values.data() - model_.gradient().data();
    EXPECT_TRUE(std::equal(layers[k].values.begin(), layers[k].values.end(), whole.begin() + at));
  });
  EXPECT_EQ(ready, (std::vector<std::size_t>{2, 1, 0}));
}

TEST_F(ModelTest, NoSamplesHaveNoGradient) {
  train(first(9));
  const Score score = train({});
  EXPECT_EQ(score.loss, 0);
  EXPECT_EQ(score.correct, 0U);
  EXPECT_THAT(model_.gradient(), testing::Each(0.0F));
}

TEST_F(ModelTest, EvaluationLeavesTheGradientAlone) {
  const Score trained = train(first(9));
  const std::vector<float> before(model_.gradient().begin(), model_.gradient().end());
  model_.evaluate(data_, data_.train, first(9));
  const Score evaluated = model_.take_score();
  EXPECT_EQ(trained.loss, evaluated.loss);
  EXPECT_EQ(trained.correct, evaluated.correct);
  EXPECT_THAT(model_.gradient(), testing::ElementsAreArray(before));
}

TEST_F(ModelTest, WeightsFollowFromTheSeed) {
  const Model same(*backend_, kInputs, make_mlp(kInputs, kHidden, kClasses), 11);
  const Model other(*backend_, kInputs, make_mlp(kInputs, kHidden, kClasses), 12);
  EXPECT_EQ(same.parameter_hash(), model_.parameter_hash());
  EXPECT_NE(other.parameter_hash(), model_.parameter_hash());
  const float bound = std::sqrt(6.0F / kInputs);
  for (const float weight : model_.parameters().first(kInputs * kHidden[0])) EXPECT_LE(std::abs(weight), bound);
  EXPECT_THAT(model_.parameters().subspan(kInputs * kHidden[0], kHidden[0]), testing::Each(0.0F));
}

TEST(CpuBackend, CrossEntropyBearsLargeScores) {
  const auto backend = make_cpu_backend();
  std::vector<float> scores = {1000, 0, -1000, -1000, 1000, 999}, gradient(6);
  const std::vector<std::uint8_t> labels = {0, 2};
  backend->cross_entropy(Matrix{scores.data(), 2, 3}, labels, {gradient.data(), 2, 3});
  const Score score = backend->take_score();
  EXPECT_NEAR(score.loss, 1.3132617, 1e-6);
  EXPECT_EQ(score.correct, 1U);
  EXPECT_THAT(gradient,
              testing::Pointwise(testing::FloatNear(1e-6F), {0.0F, 0.0F, 0.0F, 0.0F, 0.7310586F, -0.7310586F}));
}

TEST(CpuBackend, MultipliesEveryOrientation) {
  const auto backend = make_cpu_backend();
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 2, 1, 0, 3};  // 2x3 and 3x2
  std::vector<float> c(4), d(9);
  backend->multiply({a.data(), 2, 3}, {b.data(), 3, 2}, {c.data(), 2, 2});
  EXPECT_THAT(c, testing::ElementsAre(5, 11, 14, 23));
  backend->multiply(transpose({b.data(), 3, 2}), transpose({a.data(), 2, 3}), {c.data(), 2, 2});
  EXPECT_THAT(c, testing::ElementsAre(5, 14, 11, 23));
  backend->multiply(transpose({a.data(), 2, 3}), {a.data(), 2, 3}, {d.data(), 3, 3});
  EXPECT_THROW(backend->multiply({a.data(), 2, 3}, {a.data(), 2, 3}, {d.data(), 2, 3}), std::logic_error);
  EXPECT_THAT(d, testing::ElementsAre(17, 22, 27, 22, 29, 36, 27, 36, 45));
}

}  // namespace
}  // namespace anello::trainer
