// tests/gpu.sh as on a machine with a GPU: a pack with the fake GPU, in which one check hangs and one fails.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace anello {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Pack {
 public:
  Pack() {
    for (const char* folder : {"bin", "gpu", "lib", "share/digits"}) fs::create_directories(folder_ / folder);
    fs::create_symlink(ANELLO_PROGRAM, folder_ / "bin/anello");
    fs::create_symlink(FAKE_GPU_PLUGIN, folder_ / "gpu/libanello_gpu.so");
    program("anello-train",
            "for e in 1 2 3 4 5 6 7 8 9 10; do\n"
            "  echo \"epoch $e/10  loss 0.5  test loss 0.4  accuracy 90 %  1000 samples/s\"\ndone\n"
            "[[ $* != *adam* || $* != *no-graphs* ]] || hash=f\necho parameters 0123456789abcde${hash-0}");
    program("anello-bench", "echo measured");
    program("python3", "echo 7000");
    program("gpu_device_test", "[[ $* != *disabled* ]] || exit 0\nsleep 1000 & echo begun; wait");
    program("gpu_figures", "echo copy 1 GB/s; echo Error: figures of the fake >&2; exit 3");
    fs::copy_file(fs::path(SOURCE_FOLDER) / "tests/gpu.sh", folder_ / "run.sh");
    fs::copy_file(fs::path(SOURCE_FOLDER) / ".ci/prepare.sh", folder_ / "prepare.sh");
    put("stamp", "abc1234\n");
  }
  fs::path operator/(const char* name) const { return folder_ / name; }
  void put(const std::string& name, const std::string& bytes) const { folder_.put(name, bytes); }

 private:
  void program(const std::string& name, const std::string& body) const {
    put("bin/" + name, "#!/bin/bash\n" + body + "\n");
    fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
  }
  Scratch folder_;
};

TEST(GpuScript, GoesOnBehindACheckThatHangsOrFails) {
  const Pack pack;
  testing::Process script({"bash", (pack / "run.sh").string()},
                          {.environment = {"ANELLO_GPU_LIMIT=15", "OUT=" + (pack / "logs").string(),
                                           "PATH=" + (pack / "bin").string() + ":" + std::getenv("PATH")}});
  EXPECT_EQ(script.wait(testing::Milliseconds(300000)), 1) << script.out() << script.err();
  EXPECT_THAT(script.out(), AllOf(HasSubstr("pack: of abc1234"), HasSubstr("GPU 0 "), HasSubstr("copy 1 GB/s"),
                                  HasSubstr("FAILED  figures of kernels, NCCL and staging: status 3"),
                                  HasSubstr("Error: figures of the fake")))
      << script.err();
  EXPECT_THAT(script.out(), AllOf(HasSubstr("beside the processor's: not done after 15 s"), HasSubstr("begun"),
                                  HasSubstr("PyTorch 7000"), HasSubstr("ok      the processor's curve on 4 ranks"),
                                  HasSubstr("ok      the processor's curve with Adam"),
                                  HasSubstr("ok      graphs give the same parameters ("),
                                  HasSubstr("FAILED  graphs give the same parameters with Adam"),
                                  HasSubstr("ok      anello.torch on 2 ranks"),
                                  HasSubstr("FAILED  an elastic job of 3 ranks that share the GPU: status 1"),
                                  HasSubstr("none has finished a training"),
                                  HasSubstr("ok      NCCL of two ranks on one GPU"), HasSubstr("gpu: FAILED")));
  EXPECT_THAT(bytes_of(pack / "logs/figures.log"), HasSubstr("Error: figures of the fake"));
  EXPECT_TRUE(script.none_left());
}

}  // namespace
}  // namespace anello
