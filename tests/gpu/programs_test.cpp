// Programs with --device cuda, started as by a user: with a fake GPU, and without a GPU.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/pattern.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace anello {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::Surroundings;

Outcome run(int ranks, const std::string& plugin, const std::vector<std::string>& command) {
  std::vector<std::string> words = {ANELLO_PROGRAM, "run", "-n", std::to_string(ranks), "--"};
  words.insert(words.end(), command.begin(), command.end());
  return testing::run(words, {.environment = {"ANELLO_GPU_PLUGIN=" + plugin}});
}

#ifdef BENCH_PROGRAM
TEST(GpuPrograms, MeasureAndCheckInDeviceMemory) {
  const Outcome outcome =
      run(2, FAKE_GPU_PLUGIN,
          {BENCH_PROGRAM, "--device", "cuda", "allreduce", "-b", "4", "-e", "4M", "-f", "32", "-n", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("staged"), HasSubstr("4194304"))) << outcome.err;
}
#endif

std::vector<std::string> training(const std::string& device, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {TRAIN_PROGRAM, "--device", device, "--epochs", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The losses and accuracies in the output, in order.
std::vector<double> figures(const std::string& out) {
  std::vector<double> all;
  const char* const figure = R"(epoch \d+/\d+  loss ([0-9.]+)  test loss ([0-9.]+)  accuracy ([0-9.]+) %)";
  for (const pattern::Match& found : pattern::find_all(out, figure))
    for (const std::size_t group : {1, 2, 3}) all.push_back(std::stod(found[group]));
  return all;
}

void expect_near(const std::vector<double>& reached, const std::vector<double>& wanted, double within) {
  ASSERT_EQ(reached.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); i++) EXPECT_NEAR(reached[i], wanted[i], within) << i;
}

class TrainingOn : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TrainingOn, ::testing::Values(1, 2, 4));

TEST_P(TrainingOn, AGpuGivesTheProcessorsCurve) {
  const Outcome expected = run(GetParam(), "", training("cpu"));
  const Outcome found = run(GetParam(), FAKE_GPU_PLUGIN, training("cuda"));
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("device cuda (fake)"));
  ASSERT_EQ(figures(expected.out).size(), 6u) << expected.out;
  expect_near(figures(found.out), figures(expected.out), 1e-3);
}

TEST_P(TrainingOn, AGpuGivesTheSameWithAndWithoutGraphs) {
  const auto parameters = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return pattern::find_all(outcome.out, "parameters ([0-9a-f]{16})").at(0)[1];
  };
  const Outcome graphs = run(GetParam(), FAKE_GPU_PLUGIN, training("cuda"));
  EXPECT_EQ(parameters(graphs), parameters(run(GetParam(), FAKE_GPU_PLUGIN, training("cuda", {"--no-graphs"}))));
}

TEST(GpuPrograms, TrainWithEachOptionAsTheProcessorDoes) {
  const std::vector<std::string> all[] = {{"--compression", "fp16", "--clip", "1", "--optimizer", "adam"},
                                          {"--compression", "bf16", "--accumulate", "2"}};
  for (const auto& options : all) {
    const Outcome expected = run(2, "", training("cpu", options)),
                  found = run(2, FAKE_GPU_PLUGIN, training("cuda", options));
    EXPECT_EQ(found.code, 0) << found.err;
    ASSERT_EQ(figures(expected.out).size(), 6u) << expected.out;
    expect_near(figures(found.out), figures(expected.out), 1e-3);
  }
}

// A training continues first from the processor to a GPU, and then from the GPU to the processor.
TEST(GpuPrograms, ResumeOnAnotherDevice) {
  const Scratch folder;
  const std::string file = folder / "checkpoint";
  const auto until = [&](const char* epochs, const char* device) {
    const Outcome outcome = run(2, FAKE_GPU_PLUGIN,
                                {TRAIN_PROGRAM, "--device", device, "--epochs", epochs, "--optimizer", "adam",
                                 "--checkpoint", file, "--resume", "auto"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return figures(outcome.out);
  };
  std::vector<double> found;
  const char* const devices[] = {"cpu", "cuda", "cpu"};
  for (int epoch = 0; epoch < 3; epoch++)
    for (const double figure : until(std::to_string(epoch + 1).c_str(), devices[epoch])) found.push_back(figure);
  const Outcome whole = run(2, "", {TRAIN_PROGRAM, "--device", "cpu", "--epochs", "3", "--optimizer", "adam"});
  ASSERT_EQ(figures(whole.out).size(), 9u) << whole.out;
  expect_near(found, figures(whole.out), 1e-3);
}

TEST(GpuPrograms, WithoutThePluginsSayWhatIsMissing) {
  const Outcome outcome = run(2, "/nowhere/libanello_gpu.so", training("cuda"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 0 on "), HasSubstr("GPU memory needs the plugin libanello_gpu.so"),
                                 HasSubstr("/nowhere/libanello_gpu.so"), HasSubstr("-DANELLO_CUDA=ON")));
  const Scratch scratch;
  const std::filesystem::path alone = scratch / "libanello_gpu.so";
  std::filesystem::copy_file(FAKE_GPU_PLUGIN, alone);
  EXPECT_THAT(run(2, alone.string(), training("cuda")).err,
              AllOf(HasSubstr("arithmetic on GPUs needs the plugin libanello_kernels.so"), HasSubstr("nvcc")));
}

TEST(GpuPrograms, SayWhatAGpuHasNot) {
  EXPECT_THAT(run(1, FAKE_GPU_PLUGIN, training("cuda", {"--compression", "fp16", "--feedback"})).err,
              HasSubstr("error_feedback is not available for gradients in GPU memory"));
}

TEST(GpuPrograms, DoctorTellsOfDevicesAndOfTheWayThatRanksTake) {
  const Outcome outcome =
      testing::run({ANELLO_PROGRAM, "doctor"}, {.environment = {std::string("ANELLO_GPU_PLUGIN=") + FAKE_GPU_PLUGIN}});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("GPU 3"), HasSubstr("fake:3"), HasSubstr("driver supports 13.0"),
                                 HasSubstr("the fake has none"), HasSubstr("staging through host memory")));
  const Outcome without =
      testing::run({ANELLO_PROGRAM, "doctor"}, {.environment = {"ANELLO_GPU_PLUGIN=/nowhere/a.so"}});
  EXPECT_THAT(without.out, AllOf(HasSubstr("GPU tensors"), HasSubstr("/nowhere/a.so")));
  EXPECT_EQ(without.code, 0) << "a machine without a GPU has no problem";
}

}  // namespace
}  // namespace anello
