// Programs that are asked for a GPU, as a user starts them: with one that is made of threads, and with none.
#include <gmock/gmock.h>

#include "tests/support/process.hpp"

namespace anello {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::Surroundings;

Outcome bench(int ranks, const std::string& plugin, std::vector<std::string> arguments) {
  std::vector<std::string> words = {ANELLO_PROGRAM, "run",         "-n",       std::to_string(ranks),
                                    "--",           BENCH_PROGRAM, "--device", "cuda"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return testing::run(words, {.environment = {"ANELLO_GPU_PLUGIN=" + plugin}});
}

TEST(GpuPrograms, without_the_plugin_say_what_is_missing) {
  const Outcome outcome = bench(2, "/nowhere/libanello_gpu.so", {"allreduce", "-b", "4", "-e", "4"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("GPU tensors need the plugin"), HasSubstr("/nowhere/libanello_gpu.so"),
                                 HasSubstr("-DANELLO_CUDA=ON")));
}

TEST(GpuPrograms, measure_and_check_in_device_memory) {
  const Outcome outcome = bench(2, FAKE_GPU_PLUGIN, {"allreduce", "-b", "4", "-e", "4M", "-f", "32", "-n", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("staged"), HasSubstr("4194304"))) << outcome.err;
}

TEST(GpuPrograms, doctor_tells_of_devices_and_of_the_way_that_ranks_take) {
  const Outcome outcome =
      testing::run({ANELLO_PROGRAM, "doctor"}, {.environment = {std::string("ANELLO_GPU_PLUGIN=") + FAKE_GPU_PLUGIN}});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("GPU 3"), HasSubstr("fake:3"), HasSubstr("driver for 13.0"),
                                 HasSubstr("the fake has none"), HasSubstr("staged through host memory")));
  const Outcome without =
      testing::run({ANELLO_PROGRAM, "doctor"}, {.environment = {"ANELLO_GPU_PLUGIN=/nowhere/a.so"}});
  EXPECT_THAT(without.out, AllOf(HasSubstr("GPU tensors"), HasSubstr("/nowhere/a.so")));
  EXPECT_EQ(without.code, 0) << "a machine without a GPU has no problem";
}

}  // namespace
}  // namespace anello
