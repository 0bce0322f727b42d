// On a real GPU, used by one rank or shared by ranks that are threads: every collective, type and reduction, and the
// kernels compared with the CPU's arithmetic. Started by tests/gpu.sh on a machine with a GPU.
#include <gmock/gmock.h>

#include <anello/gpu.hpp>
#include <anello/gpu_gradients.hpp>
#include <cmath>
#include <memory>
#include <random>

#include "tests/gpu/on_gpu.hpp"
#include "tests/gpu/real_gpu.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace anello {
namespace {

template <class OnGpu>
void expect_right(GpuGroup& gpus, OnGpu& on_gpu, World& world, Exercise exercise) {
  exercise.world = world.size();
  Part part(exercise, world.rank());
  const gpu::Stream stream = gpu::make_stream(device());
  const gpu::DeviceGuard guard(device());
  const Mirror input(part.input().data, part.input().bytes(), stream.get());
  const Mirror output(part.output().data, part.output().bytes(), stream.get());
  const gpu::Tensors tensors{{input.get(), part.input().count, exercise.dtype},
                             {input.get(), part.in_place().count, exercise.dtype},
                             {output.get(), part.output().count, exercise.dtype}};
  gpu::carry_out(on_gpu, world.rank(), exercise, tensors, stream.get());
  output.back_to(part.output().data, stream.get());
  if (exercise.in_place && exercise.kind == Kind::reduce) input.back_to(part.in_place().data, stream.get());
  gpus.synchronize(stream.get());
  EXPECT_EQ(part.wrong(), "") << describe(exercise) << ", rank " << world.rank() << ", " << gpus.backend();
}

struct Way {
  int ranks;
  std::string backend;
};
class OnTheDevice : public ::testing::TestWithParam<Way> {
 protected:
  void expect_all_right(const std::vector<Exercise>& exercises) {
    run_world(GetParam().ranks, [&](World& world) {
      auto impl = ranks_on_one_gpu(world, {.backend = GetParam().backend});
      GpuGroupAccess::Impl& inside = *impl;
      GpuGroup gpus = GpuGroupAccess::make(std::move(impl));
      for (const Exercise& exercise : exercises) expect_right(gpus, inside, world, exercise);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, OnTheDevice,
                         ::testing::Values(Way{1, "nccl"}, Way{1, "staged"}, Way{2, "staged"}, Way{4, "staged"}),
                         [](const auto& one) { return one.param.backend + "_" + std::to_string(one.param.ranks); });

TEST_P(OnTheDevice, AllKindsAreRight) {
  std::vector<Exercise> all;
  for (const std::uint64_t count : {0, 1, 1000, 300000, 1000003})
    for (const Exercise& exercise : gpu::exercises_of_all_kinds(count, GetParam().ranks - 1)) all.push_back(exercise);
  expect_all_right(all);
}

TEST_P(OnTheDevice, AllTypesAndReductionsAreRight) {
  expect_all_right(gpu::exercises_of_all_reductions());
}

TEST_P(OnTheDevice, FactorsAreRight) {
  expect_all_right(
      {{.count = 1000, .prescale = 2, .postscale = 0.5}, {.op = Op::average, .count = 1000, .postscale = 4}});
}

// The test uses sizes for which NCCL's own kernel for one rank does not reach the last elements.
TEST_P(OnTheDevice, ReductionsReachTheLastElement) {
  std::vector<Exercise> all;
  for (const std::uint64_t count : {4105, 131075, 1000067})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      all.push_back({.op = Op::average, .dtype = dtype, .count = count});
      all.push_back({.kind = Kind::reduce, .op = Op::average, .dtype = dtype, .count = count});
      all.push_back({.op = Op::sum, .dtype = dtype, .count = count, .prescale = 2, .postscale = 0.5});
    }
  expect_all_right(all);
}

// A GpuGroup of one rank does not call NCCL, but this test does: on a machine with one GPU there is no other way to
// start NCCL.
TEST(NcclItself, StartsAndMovesWhatOneRankHas) {
  run_world(1, [](World& world) {
    const char* why = "";
    const AnelloNcclTable* const table = library().table().nccl(&why);
    ASSERT_TRUE(table) << why;
    gpu::Nccl nccl(world, device(), {table, kernels()}, {}, true);
    GpuGroup gpus(world, {.device = 0});
    for (const Exercise& exercise : gpu::exercises_of_all_kinds(1000, 0)) expect_right(gpus, nccl, world, exercise);
  });
}

// The gradients are made on one stream, averaged on another stream, and read on the first stream again.
TEST_P(OnTheDevice, GradientsAreAveraged) {
  run_world(GetParam().ranks, [&](World& world) {
    GpuGroup gpus = GpuGroupAccess::make(ranks_on_one_gpu(world, {.backend = GetParam().backend}));
    constexpr std::size_t kCount = 300007;
    const gpu::Stream stream = gpu::make_stream(device());
    const gpu::DeviceGuard guard(device());
    const std::vector<float> own(kCount, float(world.rank() + 1));
    const Mirror first(own.data(), kCount * 4, stream.get()), second(own.data(), kCount * 4, stream.get());
    GpuGradients gradients(
        gpus,
        {{"first", Tensor(first.get(), kCount, DType::f32)}, {"second", Tensor(second.get(), kCount, DType::f32)}},
        stream.get(), {.bucket_bytes = 1 << 20});
    for (int step = 0; step < 3; step++) {
      gpu::copy(device(), first.get(), own.data(), kCount * 4, stream.get());
      gradients.begin(2);
      gradients.ready(1);
      gradients.ready(0);
      gradients.finish();
    }
    std::vector<float> found(kCount);
    first.back_to(found.data(), stream.get());
    gpus.synchronize(stream.get());
    EXPECT_THAT(found, ::testing::Each(float(world.size() + 1)));
  });
}

TEST_P(OnTheDevice, WhatTravelsIn16BitsIsRight) {
  for (const DType wire : {DType::f16, DType::bf16})
    expect_all_right({{.count = 1003, .wire = wire},
                      {.dtype = DType::f64, .count = 1003, .wire = wire},
                      {.op = Op::average, .count = 1003, .wire = wire, .prescale = 2, .postscale = 0.5}});
}

// Compares the kernels with the CPU's arithmetic, on matrices of awkward sizes.
class Kernels : public ::testing::Test {
 protected:
  using Backend = trainer::Backend;
  std::vector<float> some(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random_);
    return values;
  }
  // The last of the arrays must be equal on both after `work`.
  void expect_same(std::vector<std::vector<float>> arrays,
                   const std::function<void(Backend&, const std::vector<float*>&)>& work) {
    std::vector<std::vector<float>> results;
    for (Backend* backend : {cpu_.get(), static_cast<Backend*>(&gpu_)}) {
      std::vector<Backend::Memory> memory;
      std::vector<float*> places;
      for (const auto& array : arrays) {
        memory.push_back(backend->allocate(array.size()));
        backend->copy_in(array, memory.back().get());
        places.push_back(memory.back().get());
      }
      work(*backend, places);
      results.emplace_back(arrays.back().size());
      backend->copy_out(places.back(), results.back());
    }
    EXPECT_THAT(results[1], ::testing::Pointwise(::testing::FloatNear(2e-5F), results[0]));
  }
  std::mt19937 random_{1};
  std::unique_ptr<Backend> cpu_ = trainer::make_cpu_backend();
  trainer::CudaBackend gpu_{device(), *kernels()};
};

TEST_F(Kernels, MultiplyInAllOrientations) {
  constexpr std::size_t kRows = 37, kInner = 65, kColumns = 10;
  for (const bool a_t : {false, true})
    for (const bool b_t : {false, true})
      expect_same({some(kRows * kInner), some(kInner * kColumns), some(kRows * kColumns)},
                  [&](Backend& on, const std::vector<float*>& m) {
                    on.multiply({m[0], kRows, kInner, a_t}, {m[1], kInner, kColumns, b_t}, {m[2], kRows, kColumns});
                  });
}

TEST_F(Kernels, WorkElementByElement) {
  for (const std::size_t count : {1, 3, 4, 1000, 100003}) {
    const auto two = [&] { return std::vector<std::vector<float>>{some(count), some(count)}; };
    expect_same(two(), [&](Backend& on, const auto& m) { on.relu({m[0], 1, count}, {m[1], 1, count}); });
    expect_same({some(count), some(count), some(count)}, [&](Backend& on, const auto& m) {
      on.relu_gradient({m[0], 1, count}, {m[1], 1, count}, {m[2], 1, count});
    });
    expect_same(two(), [&](Backend& on, const auto& m) { on.add({m[0], count}, {m[1], count}); });
    expect_same(two(), [&](Backend& on, const auto& m) { on.scale(0.3F, {m[1], count}); });
    expect_same({some(count), some(count), some(count)}, [&](Backend& on, const auto& m) {
      on.momentum_step({m[2], count}, {m[0], count}, {m[1], count}, 0.1F, 0.9F);
    });
    std::vector<float> squares = some(count);
    for (float& square : squares) square *= square;
    expect_same({some(count), some(count), squares, some(count)}, [&](Backend& on, const auto& m) {
      on.adam_step({m[3], count}, {m[0], count}, {m[1], count}, {m[2], count}, {0.01F, 0.9F, 0.999F, 1e-6F});
    });
    const std::vector<float> values = some(count);
    const auto memory = gpu_.allocate(count);
    gpu_.copy_in(values, memory.get());
    std::vector<float> same = values;
    const std::span<float> on_gpu(memory.get(), count), on_cpu(same);
    const double sum = gpu_.square_sum(std::span(&on_gpu, 1));
    EXPECT_NEAR(sum, cpu_->square_sum(std::span(&on_cpu, 1)), 1e-6 * double(count));
    EXPECT_EQ(sum, gpu_.square_sum(std::span(&on_gpu, 1))) << "it depends on the order";
  }
}

// Sums of multiples of 1/64 are exact in any order. One round of sum_rows is 1024 rows of 8 columns.
TEST_F(Kernels, WorkByManyRows) {
  const auto exact = [&](std::size_t count) {
    std::vector<float> values = some(count);
    for (float& value : values) value = std::round(64 * value) / 64;
    return values;
  };
  for (const std::size_t rows : {127, 128, 1023, 1024, 1025, 5001})
    for (const std::size_t columns : {1, 7, 8, 9, 256}) {
      expect_same({exact(rows * columns), some(columns)}, [&](Backend& on, const auto& m) {
        on.sum_rows(trainer::Matrix{m[0], rows, columns}, {m[1], columns});
      });
      expect_same({exact(columns), exact(rows * columns)}, [&](Backend& on, const auto& m) {
        on.add_to_rows({m[0], columns}, {m[1], rows, columns});
      });
    }
}

// The arrays begin four bytes after an alignment that loads of 16 bytes need. The elements around them must not change.
TEST_F(Kernels, WorkOnUnalignedArrays) {
  constexpr std::size_t kCount = 1000, kColumns = 100;
  const auto two = [&] { return std::vector<std::vector<float>>{some(kCount + 2), some(kCount + 2)}; };
  expect_same(two(), [&](Backend& on, const auto& m) { on.relu({m[0] + 1, 1, kCount}, {m[1] + 1, 1, kCount}); });
  expect_same(two(), [&](Backend& on, const auto& m) { on.add({m[0] + 1, kCount}, {m[1] + 1, kCount}); });
  expect_same(two(), [&](Backend& on, const auto& m) { on.scale(0.3F, {m[1] + 1, kCount}); });
  expect_same(two(), [&](Backend& on, const auto& m) {
    on.add_to_rows({m[0] + 1, kColumns}, {m[1] + 1, kCount / kColumns, kColumns});
  });
  expect_same(two(), [&](Backend& on, const auto& m) {
    const std::span<float> values(m[0] + 1, kCount);
    const auto mean = float(on.square_sum(std::span(&values, 1)) / kCount);
    on.copy_in(std::span(&mean, 1), m[1]);
  });
}

// Gathers rows that can be read four pixels at a time, and rows that cannot.
TEST_F(Kernels, GatherRows) {
  constexpr std::size_t kSamples = 50, kRows = 70;
  const float shift = 3, scale = 0.25F;
  for (const std::size_t columns : {1, 63, 64, 1000}) {
    std::vector<std::uint8_t> pixels(kSamples * columns), labels(kSamples);
    for (std::uint8_t& pixel : pixels) pixel = std::uint8_t(random_());
    for (std::uint8_t& label : labels) label = std::uint8_t(random_());
    std::vector<std::uint32_t> chosen(kRows);
    for (std::uint32_t& one : chosen) one = std::uint32_t(random_() % kSamples);
    const GpuStream stream = gpu_.stream();
    const Mirror on_pixels(pixels.data(), pixels.size(), stream), on_labels(labels.data(), labels.size(), stream);
    const Mirror on_chosen(chosen.data(), 4 * chosen.size(), stream);
    std::vector<float> images(kRows * columns);
    std::vector<std::uint8_t> row_labels(kRows);
    const Mirror out(images.data(), 4 * images.size(), stream), out_labels(row_labels.data(), kRows, stream);
    ASSERT_EQ(
        kernels()->gather(static_cast<std::uint8_t*>(on_pixels.get()), static_cast<std::uint8_t*>(on_labels.get()),
                          static_cast<std::uint32_t*>(on_chosen.get()), shift, scale, static_cast<float*>(out.get()),
                          static_cast<std::uint8_t*>(out_labels.get()), kRows, columns, stream),
        0);
    out.back_to(images.data(), stream);
    out_labels.back_to(row_labels.data(), stream);
    const gpu::Event done = gpu::make_event(device());
    gpu::record(device(), done, stream);
    gpu::wait(device(), done, std::chrono::milliseconds(0), "gathering");
    for (std::size_t r = 0; r < kRows; r++) {
      EXPECT_EQ(row_labels[r], labels[chosen[r]]);
      for (std::size_t c = 0; c < columns; c++)
        ASSERT_EQ(images[r * columns + c], scale * (float(pixels[chosen[r] * columns + c]) - shift)) << r << " " << c;
    }
  }
}

TEST_F(Kernels, WorkByRows) {
  for (const std::size_t rows : {0, 1, 7, 300})
    for (const std::size_t columns : {1, 10, 33, 257, 1100}) {
      expect_same({some(columns), some(rows * columns)}, [&](Backend& on, const auto& m) {
        on.add_to_rows({m[0], columns}, {m[1], rows, columns});
      });
      expect_same({some(rows * columns), some(columns)}, [&](Backend& on, const auto& m) {
        on.sum_rows(trainer::Matrix{m[0], rows, columns}, {m[1], columns});
      });
      std::vector<std::uint8_t> labels(rows);
      for (std::size_t r = 0; r < rows; r++) labels[r] = std::uint8_t(r * 7 % columns);
      std::vector<trainer::Score> scores;
      expect_same({some(rows * columns), some(rows * columns)}, [&](Backend& on, const auto& m) {
        const auto in_place = on.allocate_labels(rows);
        on.copy_in(labels, in_place.get());
        on.cross_entropy(trainer::Matrix{m[0], rows, columns}, {in_place.get(), rows}, {m[1], rows, columns});
        scores.push_back(on.take_score());
      });
      EXPECT_NEAR(scores[0].loss, scores[1].loss, 1e-4 * double(rows + 1));
      EXPECT_EQ(scores[0].correct, scores[1].correct);
    }
}

}  // namespace
}  // namespace anello
