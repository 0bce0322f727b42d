#include "ring/run/buffer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace anello::run {
namespace {

TEST(Buffer, OneRunOfMemory) {
  std::array<std::byte, 40> memory;
  const Buffer buffer(memory.data(), 10);
  const Bytes run = buffer.run(3, 5, 2);
  EXPECT_EQ(run.data(), memory.data() + 12);
  EXPECT_EQ(run.size(), 20);
  EXPECT_EQ(buffer.run(3, 100, 2).size(), 28) << "not past the end";
  EXPECT_EQ(buffer.run(9, 1, 2).data(), memory.data() + 36);
}

// 3 + 1 + 4 elements of two bytes, with separate memory for each piece.
class BufferOfPieces : public testing::Test {
 protected:
  std::array<std::byte, 6> a{};
  std::array<std::byte, 2> b{};
  std::array<std::byte, 8> c{};
  std::vector<Buffer::Piece> pieces = {{3, a.data(), 3}, {4, b.data(), 1}, {8, c.data(), 4}};
  Buffer buffer{pieces};
};

TEST_F(BufferOfPieces, ARunEndsWithItsPiece) {
  EXPECT_EQ(buffer.run(0, 8, 1).data(), a.data());
  EXPECT_EQ(buffer.run(0, 8, 1).size(), 6);
  EXPECT_EQ(buffer.run(0, 2, 1).size(), 4);
  EXPECT_EQ(buffer.run(2, 8, 1).data(), a.data() + 4);
  EXPECT_EQ(buffer.run(2, 8, 1).size(), 2);
}

TEST_F(BufferOfPieces, TheElementBehindABorderIsTheNextPiece) {
  EXPECT_EQ(buffer.run(3, 8, 1).data(), b.data());
  EXPECT_EQ(buffer.run(3, 8, 1).size(), 2);
  EXPECT_EQ(buffer.run(4, 8, 1).data(), c.data());
  EXPECT_EQ(buffer.run(7, 8, 1).data(), c.data() + 6);
  EXPECT_EQ(buffer.run(7, 8, 1).size(), 2);
}

}  // namespace
}  // namespace anello::run
