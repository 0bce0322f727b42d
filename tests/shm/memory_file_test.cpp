#include "ring/shm/memory_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <anello/error.hpp>

#include "tests/support/in_child.hpp"
#include "tests/support/resources.hpp"

namespace anello::shm {
namespace {

TEST(MemoryFile, IsTheSameMemoryForBoth) {
  const std::ptrdiff_t before = open_descriptors();
  {
    const MemoryFile mine = MemoryFile::create(10'000);
    const MemoryFile theirs = MemoryFile::adopt(Descriptor(dup(mine.descriptor())), 10'000);
    ASSERT_EQ(theirs.memory().size(), 10'000);
    EXPECT_NE(mine.memory().data(), theirs.memory().data());
    mine.memory()[9'999] = std::byte{42};
    EXPECT_EQ(theirs.memory()[9'999], std::byte{42});
    EXPECT_EQ(theirs.memory()[0], std::byte{0});
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(MemoryFile, CannotBeMadeSmaller) {
  const MemoryFile segment = MemoryFile::create(10'000);
  EXPECT_NE(ftruncate(segment.descriptor(), 1), 0);
}

// Some systems require that.
TEST(MemoryFile, CannotBeExecuted) {
  constexpr int kNeverExecuted = 0x8, kSealExec = 0x20;  // of Linux 6.3
  const bool can_seal = bool(Descriptor(memfd_create("test", kNeverExecuted)));
  const MemoryFile made = MemoryFile::create(10'000);
  EXPECT_EQ((fcntl(made.descriptor(), F_GET_SEALS) & kSealExec) != 0, can_seal);
}

TEST(MemoryFile, AnotherSizeOrOneThatMayShrinkIsRefused) {
  const std::ptrdiff_t before = open_descriptors();
  {
    const MemoryFile segment = MemoryFile::create(10'000);
    EXPECT_THROW(MemoryFile::adopt(Descriptor(dup(segment.descriptor())), 20'000), Error);
    const int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(unsealed, 10'000), 0);
    EXPECT_THROW(MemoryFile::adopt(Descriptor(unsealed), 10'000), Error);
  }
  EXPECT_EQ(open_descriptors(), before) << "a refused one is closed";
}

// Runs in a child process, because for a file beyond the limit the kernel sends a signal, which would end the test.
TEST(MemoryFile, BeyondTheLimitOfFilesIsAnError) {
  const int end = in_child([] {
    const rlimit limit{.rlim_cur = 10'000, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    (void)MemoryFile::create(10'000);
    try {
      (void)MemoryFile::create(10'001);
    } catch (const Error& e) {
      return e.message().find("ulimit -f") != std::string::npos ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace anello::shm
