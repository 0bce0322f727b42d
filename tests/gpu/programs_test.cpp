// Programs with --device cuda, as a user starts them: with a fake GPU, and without a GPU.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/pattern.hpp"
#include "tests/support/process.hpp"

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

class TrainingOn : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TrainingOn, ::testing::Values(1, 2, 4));

TEST_P(TrainingOn, AGpuGivesTheProcessorsCurve) {
  const Outcome expected = run(GetParam(), "", training("cpu"));
  const Outcome found = run(GetParam(), FAKE_GPU_PLUGIN, training("cuda"));
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("device cuda (fake)"));
  const auto wanted = figures(expected.out), reached = figures(found.out);
  ASSERT_EQ(wanted.size(), 6u) << expected.out;
  ASSERT_EQ(reached.size(), wanted.size()) << found.out;
  for (std::size_t i = 0; i < wanted.size(); i++) EXPECT_NEAR(reached[i], wanted[i], 1e-3) << i;
}

TEST(GpuPrograms, TrainWithHalfPrecisionOnTheWireAndClipped) {
  const Outcome outcome =
      run(2, FAKE_GPU_PLUGIN, training("cuda", {"--compression", "fp16", "--clip", "1", "--optimizer", "adam"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(GpuPrograms, WithoutThePluginsSayWhatIsMissing) {
  const Outcome outcome = run(2, "/nowhere/libanello_gpu.so", training("cuda"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 0 on "), HasSubstr("GPU memory needs the plugin libanello_gpu.so"),
                                 HasSubstr("/nowhere/libanello_gpu.so"), HasSubstr("-DANELLO_CUDA=ON")));
  const auto alone = std::filesystem::temp_directory_path() / "libanello_gpu.so";
  std::filesystem::copy_file(FAKE_GPU_PLUGIN, alone, std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(run(2, alone.string(), training("cuda")).err,
              AllOf(HasSubstr("arithmetic on GPUs needs the plugin libanello_kernels.so"), HasSubstr("nvcc")));
  std::filesystem::remove(alone);
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
