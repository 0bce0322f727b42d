#include "gpu/plugin_loader.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>

#include "tests/support/scratch.hpp"

namespace anello::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string why_not(const std::vector<std::filesystem::path>& places) {
  try {
    DevicePlugin library(places);
    device_count(library.table());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
}

TEST(DevicePlugin, that_is_nowhere_is_said_to_be_missing_with_the_remedy) {
  EXPECT_THAT(why_not({"/nowhere/a.so", "/nowhere/b.so"}),
              AllOf(HasSubstr("/nowhere/a.so, /nowhere/b.so"), HasSubstr("-DANELLO_CUDA=ON")));
}

TEST(DevicePlugin, a_file_that_is_no_library_is_named) {
  const Scratch scratch;
  const auto file = scratch.put("libanello_gpu.so", "nothing of the kind");
  EXPECT_THAT(why_not({"/nowhere/a.so", file}), HasSubstr(file.string()));
}

TEST(DevicePlugin, another_version_is_refused) {
  EXPECT_THAT(why_not({ANELLO_OLD_PLUGIN}),
              AllOf(HasSubstr("has version 99"), HasSubstr("needs version 3"), HasSubstr("one build")));
}

TEST(DevicePlugin, a_library_that_is_no_plugin_is_refused) {
  EXPECT_THAT(why_not({ANELLO_NO_PLUGIN}), HasSubstr("is not such a plugin"));
}

TEST(DevicePlugin, without_a_device_the_driver_says_why) {
  EXPECT_THAT(why_not({ANELLO_FAKE_PLUGIN}), AllOf(HasSubstr("the driver is asleep"), HasSubstr("nvidia-smi")));
}

#ifdef ANELLO_REAL_PLUGIN
// With a GPU or without one.
TEST(DevicePlugin, the_real_plugin_loads) {
  const DevicePlugin library({ANELLO_REAL_PLUGIN});
  int count = -1;
  const int status = library.table().device_count(&count);
  if (status == 0 && count > 0)
    EXPECT_GT(library.info(DeviceId{0}).memory_bytes, 0u);
  else
    EXPECT_THAT(why_not({ANELLO_REAL_PLUGIN}), HasSubstr("no GPU can be used"));
}
#endif

}  // namespace
}  // namespace anello::gpu
