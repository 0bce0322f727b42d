#include "rendezvous/protocol/delta_coding.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>

#include "tests/support/random.hpp"

namespace anello::rendezvous {
namespace {

using testing::HasSubstr;
using Texts = std::vector<std::string>;

constexpr DeltaLimits kDeltaLimits{1000, 1 << 20, 1 << 24};

std::string written(const Texts& texts) {
  Writer out;
  write_deltas(out, texts);
  return std::move(out).take();
}

Texts deltas_of(std::string_view bytes, const DeltaLimits& limits = kDeltaLimits) {
  Reader in("deltas", bytes);
  Texts texts = read_deltas(in, limits);
  in.finish();
  return texts;
}

std::string not_read(std::string_view bytes, const DeltaLimits& limits = kDeltaLimits) {
  try {
    deltas_of(bytes, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol);
    return error.what();
  }
  return "accepted";
}

TEST(DeltaCoding, TextsComeBackAsTheyWere) {
  const std::string nul("a\0b", 3), lengthy(200'000, 'x');
  for (const Texts& texts :
       {Texts{}, Texts{""}, Texts{"", "", ""}, Texts{"a", "b", "b", "b"}, Texts{"aa", "aaa", "a", "aaaa", "baa", "aab"},
        Texts{nul, nul + nul, nul}, Texts{lengthy, lengthy + "y", "y" + lengthy, lengthy}})
    EXPECT_EQ(deltas_of(written(texts)), texts);
  Random random(3);
  for (int round = 0; round < 500; round++) {
    Texts texts(random.below(6));
    for (std::string& one : texts)
      for (std::uint64_t bytes = random.below(12); bytes > 0; bytes--) one += char('a' + random.below(2));
    EXPECT_EQ(deltas_of(written(texts)), texts);
  }
}

TEST(DeltaCoding, WhatIsEqualTravelsOnceAtEitherEnd) {
  const std::string first(300, 'f'), last(300, 'l');
  const std::size_t two = written({first + "1" + last, first + "2" + last}).size();
  EXPECT_EQ(two - written({first + "1" + last}).size(), 8u + 1);
  EXPECT_EQ(written(Texts(1000)).size(), written(Texts(1)).size());
}

TEST(DeltaCoding, WhatIsNotThereIsRefused) {
  Writer deltas, repeated_nothing, more_than_all;
  deltas.u32(2).u32(2).u16(0).u16(0).str("abc").u16(2).u16(2).str("");
  EXPECT_THAT(not_read(deltas.bytes()), HasSubstr("refers to 2 + 2 bytes of a text that has 3"));
  repeated_nothing.u32(2).u32(0);
  EXPECT_THAT(not_read(repeated_nothing.bytes()), HasSubstr("claims 2 blobs in 0 bytes"));
  more_than_all.u32(1).u32(2).u16(0).u16(0).str("").u16(0).u16(0).str("");
  EXPECT_THAT(not_read(more_than_all.bytes()), HasSubstr("claims 1 blobs in 16 bytes"));
}

// A few bytes must not expand to many gigabytes.
TEST(DeltaCoding, WhatTextsWouldTakeIsBounded) {
  const Texts texts(100, std::string(1000, 'x'));
  EXPECT_THAT(not_read(written(texts), {99, 1000, 100'000}), HasSubstr("claims 100 blobs"));
  EXPECT_THAT(not_read(written(texts), {100, 999, 100'000}), HasSubstr("claims 1000 bytes where 999 are allowed"));
  EXPECT_THAT(not_read(written(texts), {100, 1000, 99'999}), HasSubstr("99 blobs of 1000 bytes after 1000 bytes"));
  EXPECT_EQ(not_read(written(texts), {100, 1000, 100'000}), "accepted");
  EXPECT_THAT(not_read(written({"ab", "abc", "abcd"}), {100, 3, 100}), HasSubstr("1 blobs of 4 bytes after 5"));
}

}  // namespace
}  // namespace anello::rendezvous
