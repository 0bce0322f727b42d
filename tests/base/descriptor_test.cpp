#include "ring/base/descriptor.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace anello {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string message(int error) {
  errno = error;
  return system_error("opening it").what();
}

TEST(SystemError, NamesTheLimitThatIsReached) {
  EXPECT_THAT(message(EMFILE), HasSubstr("opening it: Too many open files; raise the limit (ulimit -n)"));
  EXPECT_THAT(message(ENFILE), HasSubstr("opening it: Too many open files in system; raise the limit of the whole "
                                         "system (sysctl fs.file-max)"));
  EXPECT_THAT(message(ENOENT), Not(HasSubstr("limit")));
}

}  // namespace
}  // namespace anello
