#include "ring/base/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anello/error.hpp>

#include <functional>
#include <limits>

namespace anello {
namespace {

using testing::HasSubstr;

// Returns the message of the Error{protocol} that `read` must throw.
std::string protocol_error(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol);
    return error.message();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

std::string message() {
  Writer writer;
  writer.u8(0xfe).u16(0xbeef).u32(0xdeadbeef).u64(0x0123456789abcdef).i32(-2).raw("mark").str("a string");
  return std::move(writer).take();
}
void read_message(std::string_view bytes) {
  Reader reader("hello", bytes);
  EXPECT_EQ(reader.u8(), 0xfe);
  EXPECT_EQ(reader.u16(), 0xbeef);
  EXPECT_EQ(reader.u32(), 0xdeadbeef);
  EXPECT_EQ(reader.u64(), 0x0123456789abcdefU);
  EXPECT_EQ(reader.i32(), -2);
  EXPECT_EQ(reader.raw(4), "mark");
  EXPECT_EQ(reader.str(8), "a string");
  reader.finish();
}

TEST(Wire, WhatIsWrittenIsRead) {
  read_message(message());
}

TEST(Wire, IsLittleEndian) {
  EXPECT_EQ(Writer().u32(0x01020304).bytes(), std::string("\x04\x03\x02\x01"));
  EXPECT_EQ(Writer().str("ab").bytes(), std::string("\x02\0\0\0ab", 6));
}

TEST(Wire, EveryTruncationIsRefusedByName) {
  const std::string whole = message();
  for (std::size_t length = 0; length < whole.size(); length++)
    EXPECT_THAT(protocol_error([&] { read_message(std::string_view(whole).substr(0, length)); }),
                HasSubstr("hello message"))
        << length;
}

TEST(Wire, BytesLeftOverAreRefused) {
  EXPECT_THAT(protocol_error([] { read_message(message() + "xy"); }), HasSubstr("2 bytes too many"));
}

TEST(Wire, AClaimAboveTheLimitIsRefusedBeforeItIsBelieved) {
  const std::string bytes = Writer().u32(std::numeric_limits<std::uint32_t>::max()).raw("abc").bytes();
  EXPECT_THAT(protocol_error([&] { Reader("hello", bytes).str(100); }), HasSubstr("claims 4294967295 bytes where 100"));
}

TEST(Wire, AClaimAboveWhatIsThereIsRefused) {
  const std::string bytes = Writer().u32(50).raw("abc").bytes();
  EXPECT_THAT(protocol_error([&] { Reader("hello", bytes).str(100); }), HasSubstr("50 bytes expected, 3 left"));
  EXPECT_THAT(protocol_error([&] { Reader("hello", bytes).raw(std::numeric_limits<std::size_t>::max()); }),
              HasSubstr("7 left"));
}

TEST(Wire, AStringOfExactlyTheLimitIsFine) {
  const std::string bytes = Writer().str("12345").bytes();
  EXPECT_EQ(Reader("hello", bytes).str(5), "12345");
  EXPECT_THAT(protocol_error([&] { Reader("hello", bytes).str(4); }), HasSubstr("claims 5"));
}

TEST(Wire, StringsMayHoldAnything) {
  const std::string odd("\0\xff\n", 3);
  const std::string bytes = Writer().str(odd).str("").bytes();
  Reader reader("hello", bytes);
  EXPECT_EQ(reader.str(3), odd);
  EXPECT_EQ(reader.str(0), "");
  EXPECT_EQ(reader.left(), 0U);
}

}  // namespace
}  // namespace anello
