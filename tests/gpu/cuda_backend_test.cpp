// Training on a fake GPU whose kernels run the CPU's code. Tests the order of queued work, and where the host waits.
#include "trainer/cuda/cuda_backend.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/gpu/fake_gpu.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"

namespace anello::trainer {
namespace {

namespace fake = gpu::fake;

constexpr std::size_t kInputs = 6, kClasses = 3, kSamples = 40;

Dataset some_data() {
  Dataset data;
  data.rows = 2;
  data.columns = 3;
  data.classes = kClasses;
  for (std::size_t i = 0; i < kSamples; i++) {
    for (std::size_t k = 0; k < kInputs; k++) data.train.pixels.push_back(std::uint8_t((7 * i + 3 * k) % 11));
    data.train.labels.push_back(std::uint8_t(i % kClasses));
  }
  data.measure();
  return data;
}

// Runs a few steps with batches of several sizes; returns the parameters after them and the score of the last step.
struct Trained {
  std::vector<float> parameters;
  Score score;
  double norm = 0;
};
Trained train_on(Backend& backend, std::string_view optimizer) {
  const Dataset data = some_data();
  Model model(backend, kInputs, make_mlp(kInputs, std::vector<std::size_t>{5}, kClasses), 3);
  const auto steps = make_optimizer(optimizer, backend, model.parameters().size());
  Trained result;
  for (std::uint64_t step = 1; step <= 6; step++) {
    std::vector<std::uint32_t> samples(step * 6);
    std::iota(samples.begin(), samples.end(), 0U);
    model.take_score();
    model.train(
        data, data.train, samples, [](std::size_t) {}, Model::Into::fresh);
    model.train(
        data, data.train, samples, [](std::size_t) {}, Model::Into::sum);
    const std::span<float> halves[] = {model.gradient().first(7), model.gradient().subspan(7)};
    result.norm = backend.square_sum(halves);
    backend.scale(0.1F, model.gradient());
    steps->step(model.parameters(), model.gradient(), 0.05F, step);
  }
  result.score = model.take_score();
  result.parameters.resize(model.parameters().size());
  backend.copy_out(model.parameters().data(), result.parameters);
  return result;
}

TEST(CudaBackend, ComesToWhatTheProcessorComesTo) {
  const auto cpu = make_cpu_backend();
  for (const char* optimizer : {"sgd", "adam"}) {
    const Trained expected = train_on(*cpu, optimizer);
    {
      CudaBackend on_gpu(fake::device(1), *anello_kernel_table());
      EXPECT_EQ(on_gpu.name(), "cuda (fake)");
      const Trained found = train_on(on_gpu, optimizer);
      EXPECT_EQ(found.parameters, expected.parameters) << "the kernels are the same";
      EXPECT_NEAR(found.score.loss, expected.score.loss, 1e-9);
      EXPECT_EQ(found.score.correct, expected.score.correct);
      EXPECT_NEAR(found.norm, expected.norm, 1e-9);
    }
    EXPECT_EQ(fake::alive(), 0);
  }
}

// CUDA does not document the behaviour of calls with no bytes, so the backend makes no such call.
TEST(CudaBackend, AsksTheDeviceForNothingAboutNoBytes) {
  const gpu::Device device = fake::device(1);
  void* none = nullptr;
  EXPECT_NE(device.table->memory_create(&none, 0), 0);
  EXPECT_NE(device.table->zero(&none, 0, nullptr), 0);
  EXPECT_NE(device.table->copy(&none, &none, 0, nullptr), 0);
  CudaBackend on_gpu(device, *anello_kernel_table());
  EXPECT_EQ(on_gpu.allocate(0).get(), nullptr);
  EXPECT_EQ(on_gpu.allocate_labels(0).get(), nullptr);
  on_gpu.copy_out(nullptr, {});
}

// Trains with batches of two sizes. In between, evaluates a larger batch, so that the memory of batches moves.
std::vector<float> train_in_turns(Backend& backend) {
  const Dataset data = some_data();
  Model model(backend, kInputs, make_mlp(kInputs, std::vector<std::size_t>{5}, kClasses), 3);
  const auto steps = make_optimizer("sgd", backend, model.parameters().size());
  std::vector<std::uint32_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0U);
  for (std::uint64_t step = 1; step <= 10; step++) {
    const auto batch = std::span(all).subspan(step, step % 2 == 0 ? 6 : 4);
    model.train(data, data.train, batch, [](std::size_t) {});
    model.train(
        data, data.train, batch, [](std::size_t) {}, Model::Into::sum);
    steps->step(model.parameters(), model.gradient(), 0.05F, step);
    if (step == 6) model.evaluate(data, data.train, all);
  }
  std::vector<float> parameters(model.parameters().size());
  backend.copy_out(model.parameters().data(), parameters);
  return parameters;
}

// There is one graph for each batch size, pass (first and second) and layer with parameters; after the evaluation there
// is another set of graphs. Nothing is captured in the first call, or before a batch has had its largest size.
TEST(CudaBackend, GraphsOfABatchAreCapturedOnceAndComeToTheSame) {
  const auto cpu = make_cpu_backend();
  const std::vector<float> expected = train_in_turns(*cpu);
  for (const bool graphs : {true, false}) {
    const int captured = fake::graphs_captured(), launched = fake::graphs_launched();
    {
      CudaBackend on_gpu(fake::device(1), *anello_kernel_table(), graphs);
      EXPECT_EQ(train_in_turns(on_gpu), expected);
    }
    EXPECT_EQ(fake::graphs_captured() - captured, graphs ? 2 * 2 * 2 * 2 : 0);
    EXPECT_EQ(fake::graphs_launched() - launched, graphs ? 2 * 2 * (1 + 2 + 1 + 1) : 0);
    EXPECT_EQ(fake::alive(), 0);
  }
}

TEST(CudaBackend, SamplesThatDoNotFitStayInHostMemory) {
  const Dataset data = some_data();
  const std::uint32_t some[] = {3, 1};
  const Chosen chosen{data.train.pixels, data.train.labels, float(data.mean), float(1 / data.deviation), some};
  const auto gathered = [&](CudaBackend& on_gpu) {
    const auto images = on_gpu.allocate(2 * kInputs);
    const auto labels = on_gpu.allocate_labels(2);
    const int before = fake::alive();
    fake::fail("memory_create", 1);
    EXPECT_FALSE(on_gpu.gather(chosen, {images.get(), 2, kInputs}, labels.get()));
    EXPECT_EQ(fake::alive(), before) << "labels without images";
    return on_gpu.gather(chosen, {images.get(), 2, kInputs}, labels.get());
  };
  CudaBackend on_gpu(fake::device(1), *anello_kernel_table());
  EXPECT_FALSE(gathered(on_gpu)) << "it tries only once";
  fake::recover();
  Model model(on_gpu, kInputs, make_mlp(kInputs, std::vector<std::size_t>{5}, kClasses), 3);
  const auto cpu = make_cpu_backend();
  Model same(*cpu, kInputs, make_mlp(kInputs, std::vector<std::size_t>{5}, kClasses), 3);
  for (Model* each : {&model, &same}) each->evaluate(data, data.train, some);
  EXPECT_NEAR(model.take_score().loss, same.take_score().loss, 1e-9);
}

TEST(CudaBackend, WhatWaitsToBeCopiedIsNotWrittenOver) {
  CudaBackend on_gpu(fake::device(1), *anello_kernel_table());
  const std::vector<float> ones(100, 1), twos(100, 2);
  const auto first = on_gpu.allocate(ones.size()), second = on_gpu.allocate(twos.size());
  fake::queue(on_gpu.stream(), [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  on_gpu.copy_in(ones, first.get());
  on_gpu.copy_in(twos, second.get());
  std::vector<float> found(ones.size());
  on_gpu.copy_out(first.get(), found);
  EXPECT_EQ(found, ones);
  on_gpu.copy_out(second.get(), found);
  EXPECT_EQ(found, twos);
}

TEST(CudaBackend, AKernelThatFailsIsNamed) {
  static AnelloKernelTable broken = *anello_kernel_table();
  broken.relu = [](const float*, float*, std::size_t, GpuStream) { return 700; };
  CudaBackend on_gpu(fake::device(1), broken);
  const auto memory = on_gpu.allocate(4);
  try {
    on_gpu.relu(Matrix{memory.get(), 2, 2}, Matrix{memory.get(), 2, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("GPU 1, stream"),
                                               ::testing::HasSubstr("rectifying: the fake is broken")));
  }
}

}  // namespace
}  // namespace anello::trainer
