// Wrong gradients: the errors name them, and no rank hangs.
#include <gmock/gmock.h>

#include <cmath>
#include <future>
#include <stdexcept>

#include "tests/support/gradient_model.hpp"
#include "tests/support/worlds.hpp"

namespace anello::gradients {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
  return "none";
}

TEST(GradientErrors, AnnouncedAtTheWrongTimeAreNamedAndTheStepGoesOn) {
  with_ranks(2, [](World& world) {
    Model model(world.rank(), {10, 20});
    Gradients gradients(world, model.gradients());
    EXPECT_THAT(refusal([&] { gradients.ready(0); }), HasSubstr("'layer 0' was announced outside a step"));
    EXPECT_THAT(refusal([&] { gradients.finish(); }), HasSubstr("finish() was called outside a step"));
    gradients.begin();
    EXPECT_THAT(refusal([&] { gradients.begin(); }), HasSubstr("begin() was called during a step"));
    model.backward(0), gradients.ready(0);
    EXPECT_THAT(refusal([&] { gradients.ready(0); }), HasSubstr("'layer 0' was announced 2 times in a step of 1 pass"));
    EXPECT_THAT(refusal([&] { gradients.ready(2); }), HasSubstr("there is no gradient 2; there are 2"));
    model.backward(1), gradients.ready(1);
    gradients.finish();
    model.expect([&](std::size_t k, std::size_t i) { return sum_of(2, k, i) / 2; });
    EXPECT_THAT(refusal([&] { gradients.ready(1); }), HasSubstr("'layer 1' was announced outside a step"));
    world.barrier();
  });
}

// Every rank throws the same error, and the world can still be used.
TEST(GradientErrors, ThatDifferBetweenRanksAreNamed) {
  struct Odd {
    Gradient gradient;
    GradientOptions options;
    std::string told;
  };
  std::vector<float> values(60);
  std::vector<double> doubles(60);
  const std::vector<std::uint64_t> shape{3, 20}, turned{20, 3};
  const std::vector<Odd> odd{
      {{"other", values, shape}, {}, "gradient 1 differs: 'w' (3 x 20 f32) on rank 0, 'other' (3 x 20 f32) on rank 2"},
      {{"w", values, turned}, {}, "'w' (3 x 20 f32) on rank 0, 'w' (20 x 3 f32) on rank 2"},
      {{"w", doubles, shape}, {}, "'w' (3 x 20 f32) on rank 0, 'w' (3 x 20 f64) on rank 2"},
      {{"w", std::span(values).first(30)}, {}, "'w' (3 x 20 f32) on rank 0, 'w' (30 f32) on rank 2"},
      {{"w", values, shape},
       {.accumulation_passes = 2},
       "option accumulation_passes of the gradients differs: 1 on rank 0, 2 on rank 2"},
      {{"w", values, shape},
       {.unannounced = GradientOptions::Unannounced::zero},
       "option unannounced of the gradients differs: error on rank 0, zero on rank 2"}};
  for (const Odd& each : odd) {
    const auto told = told_on_all_ranks(4, [&](World& world) {
      std::vector<float> own(60), first(5);
      const bool differs = world.rank() == 2;
      const Gradient second = differs ? each.gradient : Gradient{"w", own, shape};
      try {
        Gradients gradients(world, {{"first", first}, second}, differs ? each.options : GradientOptions{});
      } catch (const Error&) {
        world.barrier();
        throw;
      }
    });
    for (const Told& one : told) {
      ASSERT_TRUE(one.error) << each.told;
      EXPECT_EQ(one.error->code(), ErrorCode::mismatch);
      EXPECT_EQ(one.error->rank(), 2);
      EXPECT_THAT(one.error->what(), HasSubstr(each.told));
      EXPECT_LT(one.after, std::chrono::seconds(5) + one.lateness) << "no limit ran out";
    }
  }
}

// Rank 1 forgets two of three gradients. The other ranks wait for a bucket that rank 1 never sends.
TEST(GradientErrors, ThatAreNotAnnouncedAreNamedOnAllRanks) {
  for (const std::int64_t bucket_bytes : {4, 1 << 20}) {
    const auto told = told_on_all_ranks(3, [&](World& world) {
      Model model(world.rank(), {10, 20, 30});
      Gradients gradients(world, model.gradients(), {.bucket_bytes = bucket_bytes});
      for (int step = 0; step < 3; step++) {
        gradients.begin();
        for (std::size_t k = 3; k-- > 0;)
          if (step < 2 || world.rank() != 1 || k == 2) model.backward(k), gradients.ready(k);
        gradients.finish();
        EXPECT_LT(step, 2);
      }
    });
    for (const Told& one : told) {
      ASSERT_TRUE(one.error) << "rank " << one.rank;
      EXPECT_EQ(one.error->code(), ErrorCode::aborted);
      EXPECT_EQ(one.error->rank(), 1);
      EXPECT_THAT(one.error->message(), HasSubstr("gradients: ready() was not called for 'layer 0', 'layer 1'; call it "
                                                  "before finish(), or set the option unannounced to zero"));
    }
  }
}

// An exception between ready() and finish() destroys the Gradients, and the memory after them.
TEST(GradientErrors, DestroyedInAStepDoNotUseTheMemoryAnyMore) {
  using Combine = GradientOptions::Combine;
  for (const Combine combine : {Combine::average, Combine::weighted}) {
    std::promise<void> gone, ended;
    std::vector<float> freed(1000, 1);
    const auto told = told_on_all_ranks(2, [&](World& world) {
      std::vector<float> own(1000, 1);
      if (world.rank() == 0) try {
          Gradients gradients(world, {{"w", freed}}, {.combine = combine});
          gradients.begin(2);
          if (combine == Combine::average) gradients.ready(0);
          throw std::runtime_error("a bad sample");
        } catch (const std::runtime_error&) {
          freed.assign(freed.size(), 7);
          gone.set_value();
          ended.get_future().wait();
          return;
        }
      Gradients gradients(world, {{"w", own}}, {.combine = combine});
      gone.get_future().wait();
      try {
        gradients.begin(2), gradients.ready(0), gradients.finish();
      } catch (const Error&) {
        ended.set_value();
        throw;
      }
      ended.set_value();
    });
    EXPECT_EQ(freed, std::vector<float>(1000, 7));
    ASSERT_TRUE(told[1].error);
    EXPECT_EQ(told[1].error->code(), ErrorCode::rank_left);
    EXPECT_EQ(told[1].error->rank(), 0);
    EXPECT_THAT(told[1].error->what(), HasSubstr("because of an exception"));
  }
}

TEST(GradientErrors, ThatAreAnnouncedInTooFewPassesAreNamed) {
  run_world(1, [](World& world) {
    Model model(0, std::vector<std::size_t>(12, 3));
    Gradients gradients(world, model.gradients(), {.accumulation_passes = 2});
    gradients.begin();
    gradients.ready(0), gradients.ready(0), gradients.ready(1);
    EXPECT_THAT(refusal([&] { gradients.finish(); }),
                HasSubstr("ready() was not called in each of 2 passes for 'layer 1', 'layer 2', 'layer 3', 'layer 4', "
                          "'layer 5', 'layer 6', 'layer 7', 'layer 8' and 3 more; call it"));
    gradients.begin();  // the next step is a step like any other
    for (std::size_t k = 0; k < 12; k++) gradients.ready(k), gradients.ready(k);
    gradients.finish();
  });
}

TEST(GradientErrors, ThatCannotBeAreRefused) {
  run_world(1, [](World& world) {
    std::vector<float> values(6);
    std::vector<int> whole(6);
    std::vector<double> wide(6);
    const std::vector<std::uint64_t> shape{2, 2};
    const auto told = [&](std::vector<Gradient> list, GradientOptions options = {}) {
      return refusal([&] { Gradients gradients(world, list, options); });
    };
    EXPECT_THAT(told({{"a", values}, {"a", values}}), HasSubstr("'a' (6 f32): is listed twice"));
    EXPECT_THAT(told({{"", values}}), HasSubstr("needs a name of one line"));
    EXPECT_THAT(told({{"a\nb", values}}), HasSubstr("needs a name of one line"));
    EXPECT_THAT(told({{"a", whole}}), HasSubstr("'a' (6 i32): must be f16, bf16, f32 or f64"));
    EXPECT_THAT(told({{"a", values, shape}}), HasSubstr("the shape does not have the tensor's 6 elements"));
    EXPECT_THAT(told({{"a", values}}, {.bucket_bytes = -1}),
                HasSubstr("bucket_bytes must be 0 (a suitable size) or positive, not -1"));
    for (const double wrong : {0.0, -1.0, std::nan("")})
      EXPECT_THAT(told({{"a", values}}, {.max_norm = wrong}), HasSubstr("max_norm must be positive, not "));
    EXPECT_THAT(told({{"a", values}}, {.accumulation_passes = 0}),
                HasSubstr("accumulation_passes must be at least 1, not 0"));
    EXPECT_THAT(told({{"a", values}}, {.error_feedback = true}), HasSubstr("set wire"));
    EXPECT_THAT(told({{"a", wide}}, {.wire = DType::f16, .error_feedback = true}), HasSubstr("for gradients of f32"));
    EXPECT_THAT(told({{"a", values}}, {.wire = DType::f64}), HasSubstr("'a' (6 f32) cannot travel as f64"));
  });
}

}  // namespace
}  // namespace anello::gradients
