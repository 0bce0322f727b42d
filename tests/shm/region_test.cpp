#include "ring/shm/region.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <anello/memory.hpp>

#include "ring/base/descriptor.hpp"

namespace anello::shm {
namespace {

// A peer still has the file of the freed memory. If the pages were not freed, the peer would keep them.
TEST(Region, ThatIsFreedLeavesNoPage) {
  for (const std::size_t bytes : {std::size_t(1), std::size_t(100'000)}) {
    auto* const memory = static_cast<std::byte*>(allocate(bytes));
    std::optional<Loan> loan = lend({memory, bytes});
    ASSERT_TRUE(loan);
    const Descriptor peers(dup(file_of(loan->place.region).descriptor));
    loan.reset();
    deallocate(memory);
    struct stat status {};
    ASSERT_EQ(fstat(peers.get(), &status), 0);
    EXPECT_EQ(status.st_blocks, 0) << bytes;
  }
}

}  // namespace
}  // namespace anello::shm
