#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <anello/gpu_gradients.hpp>
#include <future>
#include <optional>
#include <thread>

#include "gpu/gpu_group.hpp"
#include "tests/gpu/fake_nccl.hpp"
#include "tests/gpu/on_fake_gpu.hpp"

namespace anello {
namespace {

namespace fake = gpu::fake;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

GpuGroup gpus_of(World& world, const std::string& backend) {
  fake::pretend(world.local_rank() % 4);
  fake::nccl_moves_with(world.split(0, world.rank()));
  const GpuGroupAccess::Impl::Options options{.backend = backend, .staged = {.copy = milliseconds(5000)}};
  return GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(
      world, world, options, [] { return GpuGroupAccess::Impl::Tables{&fake::table()}; }));
}

class GpuGradientsBy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuGradientsBy, ::testing::Values("nccl", "staged"),
                         [](const auto& one) { return one.param; });

// Gradients are announced when the slow kernels that make them have only been queued. The order differs on rank 1.
TEST_P(GpuGradientsBy, AverageWhatIsStillBeingMade) {
  for (const int passes : {1, 2})
    run_world(2, [&](World& world) {
      GpuGroup gpus = gpus_of(world, GetParam());
      const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
      std::vector<float> a(100), b(30), c(7), none;
      GpuGradients gradients(
          gpus, std::vector<Gradient>{{"a", a}, {"none", none}, {"b", b}, {"c", c}}, stream.get(),
          {.bucket_bytes = 128, .accumulation_passes = passes, .unannounced = GradientOptions::Unannounced::zero});
      EXPECT_EQ(gradients.buckets().front(), (std::vector<std::size_t>{3, 2}));
      EXPECT_GT(gradients.buckets().size(), 3u);
      for (int step = 1; step <= 3; step++) {
        const auto make = [&](std::vector<float>& gradient, float value) {
          fake::queue(stream.get(), [&gradient, value] {
            std::this_thread::sleep_for(milliseconds(2));
            gradient.assign(gradient.size(), value);
          });
        };
        gradients.begin(2);
        for (int pass = 0; pass < passes; pass++) {
          const bool backwards = world.rank() == 1;
          make(a, float(step + world.rank()));
          if (!backwards) gradients.ready(0);
          make(b, float(world.rank()));
          gradients.ready(2);
          gradients.ready(1);
          if (backwards) gradients.ready(0);
        }
        c.assign(c.size(), 5);  // never announced
        gradients.finish();
        std::vector<float> seen;
        fake::queue(stream.get(), [&] { seen = a; });
        gpus.synchronize(stream.get());
        EXPECT_EQ(seen, std::vector<float>(100, float(2 * step + 1)));
        EXPECT_EQ(b, std::vector<float>(30, 1));
        EXPECT_EQ(c, std::vector<float>(7, 0));
      }
    });
  EXPECT_EQ(fake::alive(), 0);
}

// If the device were full of the backward pass's kernels, casts and NCCL's kernels would wait for everything that is
// queued.
TEST_P(GpuGradientsBy, TravelOnAnUrgentStream) {
  EXPECT_EQ(fake::urgent(), 0);
  run_world(2, [](World& world) {
    GpuGroup gpus = gpus_of(world, GetParam());
    std::vector<float> values(100);
    const GpuGradients gradients(gpus, {{"values", values}}, nullptr);
    world.barrier();
    EXPECT_EQ(fake::urgent(), 2);
    world.barrier();
  });
}

TEST_P(GpuGradientsBy, TakeTheSizeOfBucketsFromTheSetting) {
  Settings settings = Settings::from_environment();
  settings.bucket_bytes = 256 << 10;
  run_world(
      2,
      [&](World& world) {
        GpuGroup gpus = gpus_of(world, GetParam());
        std::vector<float> values((1 << 20) / sizeof(float));
        const std::vector<Gradient> list = {{"values", values}};
        EXPECT_EQ(GpuGradients(gpus, list, nullptr).buckets().size(), 4u) << "of 256 KiB";
        EXPECT_EQ(GpuGradients(gpus, list, nullptr, {.bucket_bytes = 0}).buckets().size(), 3u) << "512, 256, 256 KiB";
      },
      settings);
}

TEST_P(GpuGradientsBy, SumAndCompress) {
  run_world(2, [&](World& world) {
    GpuGroup gpus = gpus_of(world, GetParam());
    std::vector<float> a(100, 0.5F);
    GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}}, nullptr,
                           {.combine = GradientOptions::Combine::sum, .wire = DType::f16});
    gradients.begin(0.5);
    gradients.ready(0);
    gradients.finish();
    gpus.synchronize(nullptr);
    EXPECT_EQ(a, std::vector<float>(100, 0.5F));
  });
}

// The kernel that makes the gradient ends only after the caller has continued and made another collective. With NCCL,
// this collective would wait for the gradient's collective, because all calls of a communicator have one order.
TEST(GpuGradients, StagedLetAnotherCollectivePass) {
  run_world(2, [&](World& world) {
    GpuGroup gpus = gpus_of(world, "staged");
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    const gpu::Stream other = gpu::make_stream(fake::device(world.rank()));
    std::vector<float> a(100), b(100), loss(1, 1);
    GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}, {"b", b}}, stream.get(), {.bucket_bytes = 400});
    ASSERT_EQ(gradients.buckets().size(), 2u);
    std::promise<void> went_on;
    gradients.begin();
    fake::queue(stream.get(), [&, gate = went_on.get_future().share()] {
      gate.wait();
      b.assign(b.size(), float(world.rank()));
    });
    gradients.ready(1);
    gpus.allreduce(loss, other.get());
    gpus.synchronize(other.get());
    EXPECT_EQ(loss[0], 2);
    went_on.set_value();
    gradients.ready(0);
    gradients.finish();
    gpus.synchronize(stream.get());
    EXPECT_EQ(b, std::vector<float>(100, 0.5F));
  });
}

TEST_P(GpuGradientsBy, LetTheBackwardPassGoOn) {
  run_world(2, [&](World& world) {
    GpuGroup gpus = gpus_of(world, GetParam());
    const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
    std::vector<float> a(100), b(100);
    GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}, {"b", b}}, stream.get(), {.bucket_bytes = 400});
    std::promise<void> went_on;
    gradients.begin();
    fake::queue(stream.get(), [&, gate = went_on.get_future().share()] {
      gate.wait();
      b.assign(b.size(), float(world.rank()));
    });
    gradients.ready(1);  // returns before the gradient is made
    gradients.ready(0);
    went_on.set_value();
    gradients.finish();
    gpus.synchronize(stream.get());
    EXPECT_EQ(b, std::vector<float>(100, 0.5F));
  });
}

TEST_P(GpuGradientsBy, MayOutliveAMoveOfTheirGroup) {
  run_world(2, [&](World& world) {
    std::optional<GpuGroup> first(gpus_of(world, GetParam()));
    std::vector<float> a(100, float(world.rank()));
    GpuGradients gradients(*first, std::vector<Gradient>{{"a", a}}, nullptr);
    GpuGroup gpus = std::move(*first);
    first.reset();
    gradients.begin();
    gradients.ready(0);
    gradients.finish();
    gpus.synchronize(nullptr);
    EXPECT_EQ(a, std::vector<float>(100, 0.5F));
  });
}

TEST_P(GpuGradientsBy, EndWithTheWorld) {
  for (const Told& told : told_on_all_ranks(2, [&](World& world) {
         GpuGroup gpus = gpus_of(world, GetParam());
         const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
         std::vector<float> a(100);
         GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}}, stream.get());
         for (int step = 0;; step++) {
           gradients.begin();
           if (step == 3 && world.rank() == 1) world.abort("enough");
           gradients.ready(0);
           gradients.finish();
           gpus.synchronize(stream.get());
         }
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::aborted);
    EXPECT_THAT(told.error->what(), HasSubstr("enough"));
  }
}

TEST_P(GpuGradientsBy, AreNamedOnAllRanksIfTheyAreNotAnnounced) {
  for (const Told& told : told_on_all_ranks(2, [&](World& world) {
         GpuGroup gpus = gpus_of(world, GetParam());
         const gpu::Stream stream = gpu::make_stream(fake::device(world.rank()));
         std::vector<float> a(100), b(100);
         GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}, {"b", b}}, stream.get(), {.bucket_bytes = 400});
         gradients.begin();
         gradients.ready(1);
         if (world.rank() == 0) gradients.ready(0);
         gradients.finish();
         gpus.synchronize(stream.get());
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::aborted);
    EXPECT_EQ(told.error->rank(), 1);
    EXPECT_THAT(told.error->what(), HasSubstr("GpuGradients: ready() was not called for 'a'; call it"));
  }
}

// The program captures a graph on another stream while a bucket is reduced.
TEST(GpuGradients, StagedLeaveCapturesAlone) {
  run_world(1, [](World& world) {
    GpuGroup gpus = gpus_of(world, "staged");
    const gpu::Stream stream = gpu::make_stream(fake::device()), captured = gpu::make_stream(fake::device());
    std::vector<float> a(100, 3);
    GpuGradients gradients(gpus, {{"a", a}}, stream.get());
    std::promise<void> made;
    fake::queue(stream.get(), [gate = made.get_future().share()] { gate.wait(); });
    gradients.begin();
    gradients.ready(0);
    bool ran = false;
    fake::capture(captured.get());
    fake::queue(captured.get(), [&] { ran = true; });
    std::this_thread::sleep_for(milliseconds(50));
    made.set_value();
    std::this_thread::sleep_for(milliseconds(50));
    fake::replay(captured.get());
    fake::finish(captured.get());
    EXPECT_TRUE(ran) << "the capture is spoilt";
    gradients.finish();
    gpus.synchronize(stream.get());
    EXPECT_EQ(a, std::vector<float>(100, 3));
  });
}

// Destroys the gradients object in the middle of a step.
TEST(GpuGradients, MayBeGivenUp) {
  run_world(2, [&](World& world) {
    GpuGroup gpus = gpus_of(world, "staged");
    std::vector<float> a(100), b(100);
    GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}, {"b", b}}, nullptr, {.bucket_bytes = 400});
    gradients.begin();
    gradients.ready(1);
    if (world.rank() == 1) gradients.ready(0);
  });
  EXPECT_EQ(fake::alive(), 0);
}

// Rank 1 calls only when rank 0 has gone.
TEST(GpuGradients, DestroyedInAStepDoNotWaitForTheOtherRanks) {
  std::promise<void> gone;
  for (const Told& told : told_on_all_ranks(2, [&](World& world) {
         GpuGroup gpus = gpus_of(world, "staged");
         std::vector<float> a(100);
         {
           GpuGradients gradients(gpus, std::vector<Gradient>{{"a", a}}, nullptr);
           if (world.rank() == 1) gone.get_future().wait_for(seconds(30));
           gradients.begin();
           gradients.ready(0);
           if (world.rank() == 1) gradients.finish();
           std::this_thread::sleep_for(milliseconds(50));  // so that the call has begun
         }
         if (world.rank() == 0) gone.set_value();
       })) {
    if (told.rank == 0) continue;
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::rank_left);
  }
}

TEST(GpuGradients, ThatDifferAreAMismatch) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         GpuGroup gpus = gpus_of(world, "staged");
         std::vector<float> a(100), b(30);
         if (world.rank() == 1) b.resize(31);
         GpuGradients gradients(gpus, {{"a", a}, {"b", b}}, nullptr);
       })) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_EQ(told.error->rank(), -1) << "either may be wrong";
    EXPECT_EQ(told.error->message(), "gradient 1 differs: 'b' (30 f32) on rank 0, 'b' (31 f32) on rank 1");
  }
}

TEST(GpuGradients, MisuseIsRefused) {
  run_world(1, [](World& world) {
    GpuGroup gpus = gpus_of(world, "staged");
    std::vector<float> a(100);
    std::vector<int> whole(5);
    const auto why = [](const std::function<void()>& call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.what();
      }
      return "accepted";
    };
    const std::vector<Gradient> list = {{"a", a}};
    EXPECT_THAT(why([&] { GpuGradients(gpus, list, nullptr, {.max_norm = 1}); }),
                HasSubstr("max_norm is not available"));
    EXPECT_THAT(why([&] { GpuGradients(gpus, list, nullptr, {.error_feedback = true}); }),
                HasSubstr("error_feedback is not available"));
    EXPECT_THAT(why([&] {
                  GpuGradients(gpus, std::vector<Gradient>{{"whole", whole}}, nullptr);
                }),
                HasSubstr("'whole' (5 i32): must be f16, bf16, f32 or f64"));
    GpuGradients gradients(gpus, list, nullptr);
    EXPECT_THAT(why([&] { gradients.ready(0); }), HasSubstr("'a' was announced outside a step"));
    EXPECT_THAT(why([&] { gradients.finish(); }), HasSubstr("finish() was called outside a step"));
    gradients.begin();
    EXPECT_THAT(why([&] { gradients.begin(); }), HasSubstr("begin() was called during a step"));
    EXPECT_THAT(why([&] { gradients.ready(1); }), HasSubstr("there is no gradient 1"));
    gradients.ready(0);
    EXPECT_THAT(why([&] { gradients.ready(0); }), HasSubstr("'a' was announced 2 times in a step of 1 pass"));
    gradients.finish();
    gpus.synchronize(nullptr);
  });
}

}  // namespace
}  // namespace anello
