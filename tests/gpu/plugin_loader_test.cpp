#include "gpu/plugin_loader.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <array>
#include <climits>
#include <stdexcept>

#include "gpu/kernels/kernel_table.h"
#include "gpu/table.h"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/support/scratch.hpp"

namespace anello::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string why_not(const std::vector<std::filesystem::path>& places, std::chrono::milliseconds limit = kLoadLimit) {
  try {
    DevicePlugin library(places, limit);
    device_count(library.table());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
}

TEST(DevicePlugin, ThatIsNowhereIsSaidToBeMissingWithTheRemedy) {
  EXPECT_THAT(why_not({"/nowhere/a.so", "/nowhere/b.so"}),
              AllOf(HasSubstr("/nowhere/a.so, /nowhere/b.so"), HasSubstr("-DANELLO_CUDA=ON")));
}

TEST(DevicePlugin, AFileThatIsNoLibraryIsNamed) {
  const Scratch scratch;
  const auto file = scratch.put("libanello_gpu.so", "nothing of the kind");
  EXPECT_THAT(why_not({"/nowhere/a.so", file}), HasSubstr(file.string()));
}

TEST(DevicePlugin, AnotherVersionIsRefused) {
  EXPECT_THAT(why_not({ANELLO_OLD_PLUGIN}),
              AllOf(HasSubstr("has version 99"), HasSubstr(text("needs version ", ANELLO_GPU_TABLE_VERSION)),
                    HasSubstr("one build")));
}

TEST(DevicePlugin, ALibraryThatIsNoPluginIsRefused) {
  EXPECT_THAT(why_not({ANELLO_NO_PLUGIN}), HasSubstr("is not such a plugin"));
}

TEST(DevicePlugin, WithoutADeviceTheDriverSaysWhy) {
  EXPECT_THAT(why_not({ANELLO_FAKE_PLUGIN}), AllOf(HasSubstr("the driver is asleep"), HasSubstr("nvidia-smi")));
}

TEST(DevicePlugin, APluginWhoseLoadingHangsIsGivenUp) {
  EXPECT_THAT(why_not({ANELLO_HANGING_PLUGIN}, std::chrono::milliseconds(100)),
              AllOf(HasSubstr(text("loading ", ANELLO_HANGING_PLUGIN, " did not end within 0.1 s")),
                    HasSubstr("ANELLO_GPU_PLUGIN=none")));
}

// Spaces and colons separate libraries in LD_PRELOAD, so a folder with both in its name is a special case.
TEST(DevicePlugin, AFolderWithSpacesAndColonsIsNoWayAround) {
  const Scratch scratch;
  const std::filesystem::path folder = scratch / "my: own folder";
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink(ANELLO_HANGING_PLUGIN, folder / "libanello_gpu.so");
  EXPECT_THAT(why_not({folder / "libanello_gpu.so"}, std::chrono::milliseconds(500)),
              HasSubstr("did not end within 0.5 s"));
}

// The driver's library is found by its name.
TEST(DevicePlugin, ADriverWhoseLoadingHangsIsGivenUp) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) GTEST_SKIP() << "the driver's library is loaded already";
  const Scratch scratch;
  std::filesystem::create_symlink(ANELLO_HANGING_PLUGIN, scratch.path() / "libcuda.so.1");
  const auto before = environment("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH", scratch.path().c_str(), 1);
  EXPECT_THAT(why_not({ANELLO_FAKE_PLUGIN}, std::chrono::milliseconds(1000)),
              HasSubstr("loading libcuda.so.1 did not end within 1 s"));
  before ? setenv("LD_LIBRARY_PATH", before->c_str(), 1) : unsetenv("LD_LIBRARY_PATH");
}

#ifdef ANELLO_REAL_PLUGIN
// On machines with and without a GPU.
TEST(DevicePlugin, TheRealPluginLoads) {
  const DevicePlugin library({ANELLO_REAL_PLUGIN});
  int count = -1;
  const int status = library.table().device_count(&count);
  if (status == 0 && count > 0)
    EXPECT_GT(library.info(DeviceId{0}).memory_bytes, 0u);
  else
    EXPECT_THAT(why_not({ANELLO_REAL_PLUGIN}), HasSubstr("no GPU can be used"));
}
#endif

#ifdef ANELLO_REAL_KERNELS
const AnelloKernelTable& real_kernels() {
  void* const plugin = dlopen(ANELLO_REAL_KERNELS, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) throw std::runtime_error(dlerror());
  return *reinterpret_cast<const AnelloKernelTable* (*)()>(dlsym(plugin, "anello_kernel_table"))();
}

// cuBLAS maps 600 MB, and is not where PyTorch's users look for libraries: casts must work without it.
TEST(KernelPlugin, LoadsWithoutCublas) {
  const AnelloKernelTable& table = real_kernels();
  EXPECT_EQ(table.version, std::uint32_t(ANELLO_KERNEL_TABLE_VERSION));
  EXPECT_EQ(table.cast(nullptr, 0, int(DType::f32), int(DType::f16), 1, nullptr), 0);
  EXPECT_FALSE(dlopen("libcublas.so.13", RTLD_NOW | RTLD_NOLOAD));
  EXPECT_FALSE(dlopen("libcublas.so.12", RTLD_NOW | RTLD_NOLOAD));
}

// cuBLAS takes sizes as int. A size that does not fit into an int must be refused, and not cut off.
TEST(KernelPlugin, RefusesAProductThatCublasCannotCount) {
  const AnelloKernelTable& table = real_kernels();
  const std::size_t most = std::size_t{INT_MAX}, more = most + 1;
  for (const auto& [rows, inner, columns] : {std::array{more, most, most}, {most, more, most}, {most, most, more}})
    EXPECT_NE(table.multiply(nullptr, nullptr, 0, nullptr, 0, nullptr, rows, inner, columns, nullptr), 0);
}
#endif

}  // namespace
}  // namespace anello::gpu
