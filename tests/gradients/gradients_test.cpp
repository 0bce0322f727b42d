// Gradients and their averages, in whole worlds.
#include <gmock/gmock.h>
#include <anello/gradients.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include "tests/support/gradient_model.hpp"
#include "tests/support/random.hpp"
#include "tests/support/worlds.hpp"

namespace anello::gradients {
namespace {

using testing::ElementsAre;
using Combine = GradientOptions::Combine;

class GradientsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GradientsOf, testing::Values(1, 2, 3, 4));

TEST_P(GradientsOf, AreAveraged) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), kSizes);
    Gradients gradients(world, model.gradients(), {.bucket_bytes = 1500});
    for (int step = 0; step < 5; step++) {
      gradients.begin();
      for (std::size_t k = model.count(); k-- > 0;) {
        model.backward(k, step);
        gradients.ready(k);
      }
      const StepStats done = gradients.finish();
      model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i, step) / world.size(); });
      EXPECT_EQ(done.norm, std::nullopt);
      if (world.size() > 1) {
        EXPECT_GT(done.communicated.count(), 0);
        EXPECT_GT(gradients.buckets().size(), 5u);
      }
    }
  });
}

// The order differs in every step and on every rank.
TEST_P(GradientsOf, MayBecomeReadyInAnyOrder) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), kSizes);
    Gradients gradients(world, model.gradients(), {.bucket_bytes = 2000});
    Random random(std::uint64_t(world.rank()) + 1);
    std::vector<std::size_t> order(model.count());
    std::iota(order.begin(), order.end(), 0u);
    for (int step = 0; step < 100; step++) {
      random.shuffle(order);
      gradients.begin();
      for (const std::size_t k : order) {
        model.backward(k, step);
        gradients.ready(k);
      }
      gradients.finish();
      model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i, step) / world.size(); });
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST_P(GradientsOf, AreMultipliedAndAddedIfSoWanted) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), kSizes);
    Gradients gradients(world, model.gradients(), {.combine = Combine::sum});
    gradients.begin(0.5);
    for (std::size_t k = 0; k < model.count(); k++) model.backward(k), gradients.ready(k);
    gradients.finish();
    model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i) / 2; });
  });
}

// The last batch has 3 samples on rank 0 and none on rank 1.
TEST_P(GradientsOf, AreWeightedBySamples) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), kSizes);
    Gradients gradients(world, model.gradients(), {.combine = Combine::weighted});
    const auto samples = [](int rank) { return rank == 1 ? 0 : 3 + rank; };
    double total = 0;
    for (int rank = 0; rank < world.size(); rank++) total += samples(rank);
    for (int step = 0; step < 3; step++) {
      gradients.begin(samples(world.rank()));
      for (std::size_t k = 0; k < model.count(); k++) model.backward(k), gradients.ready(k);
      gradients.finish();
      model.expect([&](std::size_t k, std::size_t i) {
        double sum = 0;
        for (int rank = 0; rank < world.size(); rank++) sum += samples(rank) * double(Model::value(rank, k, i, 0));
        return sum / total;
      });
    }
    gradients.begin(0);
    for (std::size_t k = 0; k < model.count(); k++) model.backward(k), gradients.ready(k);
    gradients.finish();
    model.expect([](std::size_t, std::size_t) { return 0; });
  });
}

// The only gradient has no elements, but the sum of the weights is still sent. When the step ends, nothing may still
// use this sum.
TEST_P(GradientsOf, WithoutElementsAreWeightedToo) {
  std::atomic<int> begun = 0;
  with_ranks(GetParam(), [&](World& world) {
    std::vector<float> none;
    Gradients gradients(world, {{"none", none}}, {.combine = Combine::weighted});
    for (int step = 1; step <= 3; step++) {
      if (world.rank() == world.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      begun++;
      gradients.begin(world.rank() + 1);
      gradients.ready(0);
      gradients.finish();
      EXPECT_GE(begun, step * world.size()) << "it has not waited for all ranks";
    }
  });
}

TEST_P(GradientsOf, OfSeveralPassesAreAnnouncedAsOften) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), {10, 20});
    Gradients gradients(world, model.gradients(), {.accumulation_passes = 3});
    gradients.begin();
    model.backward(0), model.backward(1);
    for (int pass = 0; pass < 3; pass++)
      for (std::size_t k = 0; k < 2; k++) {
        if (pass > 0)
          for (float& value : model.values()[k]) value += 1;
        gradients.ready(k);
      }
    EXPECT_THROW(gradients.ready(1), Error);
    gradients.finish();
    model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i) / world.size() + 2; });
  });
}

// The norm is the norm of the average, as a single rank would compute it.
TEST_P(GradientsOf, AreScaledDownToTheNorm) {
  with_ranks(GetParam(), [](World& world) {
    for (const std::int64_t bucket_bytes : {100, 3000, 1 << 20}) {
      Model model(world.rank(), kSizes);
      Gradients gradients(world, model.gradients(), {.bucket_bytes = bucket_bytes, .max_norm = 10});
      double squares = 0;
      for (std::size_t k = 0; k < kSizes.size(); k++)
        for (std::size_t i = 0; i < kSizes[k]; i++) squares += std::pow(sum_of(world.size(), k, i) / world.size(), 2);
      for (int step = 0; step < 2; step++) {
        gradients.begin();
        for (std::size_t k = 0; k < model.count(); k++) model.backward(k), gradients.ready(k);
        const double norm = gradients.finish().norm.value();
        EXPECT_NEAR(norm, std::sqrt(squares), 1e-5 * norm);
        for (std::size_t k = 0; k < model.count(); k++)
          for (std::size_t i = 0; i < model.values()[k].size(); i++)
            ASSERT_NEAR(model.values()[k][i], sum_of(world.size(), k, i) / world.size() * 10 / norm, 1e-6);
      }
    }
  });
}

TEST_P(GradientsOf, BelowTheNormStayAsTheyAre) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), {10});
    Gradients gradients(world, model.gradients(), {.max_norm = 1000});
    gradients.begin();
    model.backward(0), gradients.ready(0);
    EXPECT_GT(gradients.finish().norm, 0);
    model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i) / world.size(); });
  });
}

// There are three gradients. Only rank 0 uses the second, and no rank uses the last.
TEST_P(GradientsOf, ThatAreNotUsedCountAsZero) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), {10, 20, 30});
    Gradients gradients(world, model.gradients(), {.unannounced = GradientOptions::Unannounced::zero});
    for (int step = 0; step < 3; step++) {
      for (auto& values : model.values()) std::fill(values.begin(), values.end(), 77.0F);
      gradients.begin();
      model.backward(0), gradients.ready(0);
      if (world.rank() == 0) model.backward(1), gradients.ready(1);
      gradients.finish();
      model.expect([&](std::size_t k, std::size_t i) {
        if (k == 0) return sum_of(world.size(), k, i) / world.size();
        return k == 1 ? double(Model::value(0, k, i, 0)) / world.size() : 0;
      });
    }
  });
}

TEST_P(GradientsOf, TravelBesideWhatElseTheWorldDoes) {
  with_ranks(GetParam(), [](World& world) {
    Model model(world.rank(), kSizes);
    Gradients gradients(world, model.gradients(), {.bucket_bytes = 500});
    Random random(std::uint64_t(world.rank()) + 7);
    for (int step = 0; step < 5; step++) {
      gradients.begin();
      for (std::size_t k = 0; k < model.count(); k++) {
        model.backward(k), gradients.ready(k);
        // The announcement comes after other gradients on every rank.
        if (k != std::size_t(world.rank())) continue;
        EXPECT_EQ(world.average(2.0), 2.0);
      }
      gradients.finish();
      model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i) / world.size(); });
    }
  });
}

TEST(Gradients, FollowTheOrderOfRank0AfterTheFirstStep) {
  with_ranks(2, [](World& world) {
    Model model(world.rank(), {10, 10, 10, 10});
    Gradients gradients(world, model.gradients(), {.bucket_bytes = 80});
    EXPECT_THAT(gradients.buckets(), ElementsAre(ElementsAre(3, 2), ElementsAre(1, 0))) << "at first backwards";
    const std::vector<std::size_t> order =
        world.rank() == 0 ? std::vector<std::size_t>{2, 0, 3, 1} : std::vector<std::size_t>{0, 1, 2, 3};
    for (int step = 0; step < 2; step++) {
      gradients.begin();
      for (const std::size_t k : order) gradients.ready(k);
      gradients.finish();
      EXPECT_THAT(gradients.buckets(), ElementsAre(ElementsAre(2, 0), ElementsAre(3, 1)));
    }
  });
}

// The steps take a different time on each rank, but all ranks must use the size that rank 0 found.
TEST(Gradients, MayTrySizesOfBucketsAndAgreeOnOne) {
  with_ranks(3, [](World& world) {
    Model model(world.rank(), {400'000, 600'000, 10});
    Gradients gradients(world, model.gradients(), {.tune_buckets = true});
    std::set<std::size_t> tried;
    for (int step = 0; step < 25; step++) {
      gradients.begin();
      for (std::size_t k = model.count(); k-- > 0; gradients.ready(k)) model.backward(k, step);
      if (step % 3 == world.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gradients.finish();
      if (step % 24 == 0)
        model.expect([&](std::size_t k, std::size_t i) { return sum_of(world.size(), k, i, step) / world.size(); });
      tried.insert(gradients.buckets().size());
      if (step == 17) {
        EXPECT_EQ(tried.size(), 3u) << "256 KiB, 1 MiB and all";
      }
      if (step < 20) continue;
      std::vector<std::uint64_t> all(3);
      const std::uint64_t own = gradients.buckets().size();
      world.allgather(std::span(&own, 1), all);
      EXPECT_THAT(all, testing::Each(own));
    }
  });
}

// The first bucket is done before the last gradient is ready.
TEST(Gradients, TravelWhileOthersAreStillMade) {
  with_ranks(2, [](World& world) {
    Model model(world.rank(), {1000, 1000});
    Gradients gradients(world, model.gradients(), {.bucket_bytes = 4000});
    gradients.begin();
    const std::uint64_t operations = world.counters().operations;
    model.backward(1), gradients.ready(1);
    const auto before = std::chrono::steady_clock::now();
    while (world.counters().operations == operations &&
           std::chrono::steady_clock::now() - before < std::chrono::seconds(20))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(world.counters().operations, operations + 1);
    model.backward(0), gradients.ready(0);
    gradients.finish();
  });
}

// A rank dies in the middle of a step.
TEST(Gradients, FailWithTheirWorld) {
  const auto told = told_on_all_ranks(3, [](World& world) {
    Model model(world.rank(), kSizes);
    Gradients gradients(world, model.gradients(), {.bucket_bytes = 500});
    gradients.begin();
    for (std::size_t k = 0; k < model.count(); k++) {
      if (world.rank() == 1 && k == 4) {
        world.abort("enough");
        return;
      }
      gradients.ready(k);
    }
    gradients.finish();
  });
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(told[std::size_t(rank)].error);
    EXPECT_EQ(told[std::size_t(rank)].error->code(), ErrorCode::aborted);
  }
}

// Gradients so small that f16 rounds them to zero: with feedback they add up until they are large enough.
TEST(Gradients, ThatRoundingLosesComeBackByFeedback) {
  for (const bool feedback : {false, true})
    with_ranks(2, [feedback](World& world) {
      constexpr float kTiny = 1e-8F;  // the smallest number of f16 is 6e-8
      constexpr int kSteps = 1000;
      std::vector<float> gradient(100), parameter(100);
      Gradients gradients(world, {{"tiny", gradient}}, {.wire = DType::f16, .error_feedback = feedback});
      for (int step = 0; step < kSteps; step++) {
        std::fill(gradient.begin(), gradient.end(), kTiny);
        gradients.begin();
        gradients.ready(0);
        gradients.finish();
        for (std::size_t i = 0; i < parameter.size(); i++) parameter[i] += gradient[i];
        ASSERT_EQ(gradients.residuals().size(), feedback ? 1u : 0u);
        if (feedback && step == 0) {
          EXPECT_THAT(gradients.residuals()[0], testing::Each(kTiny / 2)) << "half of it travels: the average of two";
        }
      }
      for (const float value : parameter) {
        if (feedback)
          EXPECT_NEAR(value, kTiny * kSteps, 0.01 * kTiny * kSteps);
        else
          EXPECT_EQ(value, 0);
      }
    });
}

// In one step, one rank has a gradient that 16 bits cannot represent. This gradient must not affect the next step.
TEST(Gradients, ThatAreNotFiniteDoNotComeBackByFeedback) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [wire, wrong] : std::vector<std::pair<DType, float>>{
           {DType::f16, 1e6F}, {DType::f16, -kInfinity}, {DType::f16, NAN}, {DType::bf16, 3.4e38F}, {DType::bf16, NAN}})
    with_ranks(2, [&, wire = wire, wrong = wrong](World& world) {
      std::vector<float> gradient(1);
      Gradients gradients(world, {{"one", gradient}}, {.combine = Combine::sum, .wire = wire, .error_feedback = true});
      for (int step = 0; step < 3; step++) {
        gradient[0] = step == 1 && world.rank() == 0 ? wrong : 1.F;
        gradients.begin();
        gradients.ready(0);
        gradients.finish();
        if (step == 1)
          EXPECT_FALSE(std::isfinite(gradient[0])) << wrong << " as " << name(wire);
        else
          EXPECT_EQ(gradient[0], 2.F) << "step " << step << ", " << wrong << " as " << name(wire);
      }
    });
}

}  // namespace
}  // namespace anello::gradients
