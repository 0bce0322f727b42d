#include "ring/base/signature.hpp"

#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <algorithm>
#include <anello/error.hpp>
#include <vector>

#include "ring/base/element_types.hpp"

namespace anello {
namespace {

using testing::HasSubstr;

Signature sample() {
  Signature signature;
  signature.generation = 0x01020304;
  signature.sequence = 7;
  signature.count = std::uint64_t(1) << 40;
  signature.slab_elems = 1 << 20;
  signature.results = 0x89abcdef;
  signature.fingerprint = 0xfedcba9876543210;
  signature.root = 2;
  signature.kind = Kind::allreduce;
  signature.op = Op::max;
  signature.dtype = DType::bf16;
  signature.algorithm = Algorithm(3);
  return signature;
}
std::string bytes_of(const Signature& signature) {
  EncodedSignature bytes;
  encode(signature, bytes);
  return {bytes.begin(), bytes.end()};
}

// Each property of a signature has bits of its own, so a change of one property changes no other.
TEST(Signature, KeepsEachPropertyApart) {
  for (const Kind kind : kAllKinds)
    for (const DType dtype : {DType(1), kElementTypes.back(), DType(127)})
      for (const DType wire : {kAsTheyAre, DType(127)}) {
        Signature signature = sample();
        signature.kind = kind;
        signature.op = Op::bit_xor;
        signature.dtype = dtype;
        signature.wire = wire;
        signature.algorithm = Algorithm(255);
        EXPECT_EQ(decode_signature(bytes_of(signature)), signature);
      }
}

TEST(Signature, ComesBackAsItWas) {
  EXPECT_EQ(decode_signature(bytes_of(sample())), sample());
  Signature none;
  none.root = -1;
  EXPECT_EQ(decode_signature(bytes_of(none)), none);
}

TEST(Signature, WhatIsNoneIsRefused) {
  const std::string right = bytes_of(sample());
  for (std::size_t length = 0; length < right.size(); length++)
    EXPECT_THROW(decode_signature(right.substr(0, length)), Error) << length;
  EXPECT_THROW(decode_signature(right + "x"), Error);
  std::string wrong = right;
  wrong[0] = 'B';
  EXPECT_THROW(decode_signature(wrong), Error);
}

TEST(Signature, TheFirstDifferenceIsNamedWithBothRanksAndBothValues) {
  const Signature a = sample();
  EXPECT_EQ(difference({0}, a, {1}, a), "");
  Signature b = a;
  b.count = 5;
  EXPECT_EQ(
      difference({0}, a, {4}, b),
      "the counts differ: rank 0 calls allreduce #7 (max of 1099511627776 bf16), rank 4 calls allreduce #7 (max of "
      "5 bf16)");
  b = a;
  b.dtype = DType::f64;
  EXPECT_THAT(difference({0}, a, {1}, b), HasSubstr("dtypes differ"));
  b = a;
  b.op = Op::sum;
  EXPECT_THAT(difference({0}, a, {1}, b), HasSubstr("reductions differ"));
  b = a;
  b.kind = Kind::broadcast;
  EXPECT_THAT(difference({0}, a, {1}, b), HasSubstr("rank 1 calls broadcast #7 (1099511627776 bf16 from root 2)"));
  b = a;
  b.fingerprint = 0;
  EXPECT_THAT(difference({0}, a, {1}, b), HasSubstr("the postscales, tensors of a list (same total), or"));
  Signature c = a;
  c.hidden = {.known = true, .postscale = 0.1};
  b.hidden = {.known = true, .postscale = 0.25};
  EXPECT_THAT(difference({0}, c, {1}, b),
              HasSubstr("the postscales differ: rank 0 calls allreduce #7 (max of 1099511627776 "
                        "bf16) with postscale 0.1, rank 1 calls"));
  b.hidden = {.known = true, .postscale = 0.1, .token = 9};
  EXPECT_THAT(difference({0}, c, {1}, b), HasSubstr(" with token 0, rank 1 calls"));
  b.hidden = c.hidden;
  EXPECT_THAT(difference({0}, c, {1}, b), HasSubstr("the tensors of a list (same total) differ"));
  b = a;
  b.wire = DType::f16;
  EXPECT_THAT(difference({0}, a, {1}, b), HasSubstr("the dtypes on the wire differ"));
  b = a;
  b.algorithm = Algorithm::ring;
  EXPECT_THAT(difference({0}, a, {1}, b), HasSubstr("algorithms differ: rank 0 calls "));
}

// Appends the fingerprints of all lists that continue a list with the fingerprint `before` by up to `more` numbers.
void extend(std::vector<std::uint64_t>& all, std::uint64_t before, int more) {
  if (before != 0) all.push_back(before);
  for (std::uint64_t value = 0; value < 9 && more > 0; value++) extend(all, fingerprint(before, value), more - 1);
}

TEST(Fingerprint, DiffersForAllShortListsOfSmallNumbers) {
  std::vector<std::uint64_t> all;
  extend(all, 0, 5);
  EXPECT_EQ(all.size(), 9U + 81 + 729 + 6561 + 59049);
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end());
}

}  // namespace
}  // namespace anello
