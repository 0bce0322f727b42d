// More than 2^31 bytes: no size may be stored in 32 bits.
#include <gtest/gtest.h>

#include <anello/testing.hpp>
#include <array>
#include <cstring>
#include <vector>

namespace anello::group {
namespace {

TEST(Large, AllreduceOfMoreThanTwoGigabytes) {
  run_world(2, [](World& world) {
    const std::size_t count = (std::size_t(1) << 31) + 12'345;
    std::vector<std::uint8_t> data(count, std::uint8_t(1 + world.rank()));
    const std::array<std::size_t, 6> marks = {0,        1, count / 2, (std::size_t(1) << 31) - 1, std::size_t(1) << 31,
                                              count - 1};
    for (const std::size_t at : marks) data[at] = std::uint8_t(10 * (1 + world.rank()));
    world.allreduce(data);
    for (const std::size_t at : marks) EXPECT_EQ(data[at], 30) << at;
    for (const std::size_t at : marks) data[at] = 3;
    EXPECT_EQ(data[0], 3);
    EXPECT_EQ(std::memcmp(data.data(), data.data() + 1, count - 1), 0) << "all are equal";
  });
}

}  // namespace
}  // namespace anello::group
