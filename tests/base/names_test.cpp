// Errors, element types, operations, severities: their names, in both directions, and their other properties.
#include <gtest/gtest.h>
#include <anello/error.hpp>
#include <anello/tensor.hpp>
#include <anello/version.hpp>

#include <array>
#include <cstdlib>
#include <list>
#include <set>
#include <vector>

#include "ring/base/element_types.hpp"

namespace anello {
namespace {

TEST(Error, SaysItsContextsOutermostFirst) {
  Error error(ErrorCode::network, "10.0.0.2:4711 refused", 3);
  EXPECT_STREQ(error.what(), "10.0.0.2:4711 refused");
  error.within("connecting to rank 3").within("joining");
  EXPECT_STREQ(error.what(), "joining: connecting to rank 3: 10.0.0.2:4711 refused");
  EXPECT_EQ(error.message(), "10.0.0.2:4711 refused");
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(Error(ErrorCode::file, "").rank(), -1);
}

// CMake reads the version from the header.
TEST(Version, IsThatOfThePackage) {
  EXPECT_EQ(version(), ANELLO_PROJECT_VERSION);
}

TEST(Error, KeepsItsTypeThroughTheLayers) {
  try {
    try {
      throw Error(ErrorCode::rank_dead, "rank 2 died", 2);
    } catch (Error& error) {
      throw error.within("allreduce #7");
    }
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "allreduce #7: rank 2 died");
    EXPECT_EQ(dynamic_cast<const Error&>(error).rank(), 2);
  }
}

TEST(Names, CodesHaveOneEach) {
  std::set<std::string_view> names;
  for (int code = int(ErrorCode::invalid_argument); code <= int(ErrorCode::device); code++) {
    EXPECT_NE(name(ErrorCode(code)), "?") << code;
    EXPECT_TRUE(names.insert(name(ErrorCode(code))).second) << code;
  }
  EXPECT_EQ(name(ErrorCode::rank_dead), "rank_dead");
  EXPECT_EQ(name(ErrorCode(0)), "?");
  EXPECT_EQ(name(ErrorCode(200)), "?");
}

TEST(Names, ElementTypesParseToThemselvesAndKnowTheirSize) {
  std::set<std::string_view> names;
  for (const DType dtype : kElementTypes) {
    DType parsed = DType::f32;
    const std::string_view type = name(dtype);
    EXPECT_TRUE(names.insert(type).second) << type;
    EXPECT_TRUE(parse(type, parsed)) << type;
    EXPECT_EQ(parsed, dtype);
    const int bits = parsed == DType::boolean ? 8 : std::atoi(&type[type.find_first_of("0123456789")]);
    EXPECT_EQ(8 * size_bytes(parsed), std::size_t(bits)) << type;
  }
  DType untouched = DType::i8;
  for (const char* wrong : {"", "f", "float", "F32", "f32 ", "?"}) EXPECT_FALSE(parse(wrong, untouched)) << wrong;
  EXPECT_EQ(untouched, DType::i8);
  EXPECT_EQ(name(DType(0)), "?");
  EXPECT_EQ(name(DType(99)), "?");
}

TEST(Names, OperationsParseToThemselves) {
  for (int i = int(Op::sum); i <= int(Op::bit_xor); i++) {
    Op parsed = Op::sum;
    EXPECT_TRUE(parse(name(Op(i)), parsed));
    EXPECT_EQ(parsed, Op(i));
  }
  Op untouched = Op::max;
  for (const char* wrong : {"", "Sum", "avg", "?"}) EXPECT_FALSE(parse(wrong, untouched)) << wrong;
  EXPECT_EQ(untouched, Op::max);
  EXPECT_EQ(name(Op(99)), "?");
}

TEST(ElementTypes, FollowFromTheCppType) {
  EXPECT_EQ(dtype_of<f16>(), DType::f16);
  EXPECT_EQ(dtype_of<bf16>(), DType::bf16);
  EXPECT_EQ(dtype_of<float>(), DType::f32);
  EXPECT_EQ(dtype_of<double>(), DType::f64);
  EXPECT_EQ(dtype_of<std::int8_t>(), DType::i8);
  EXPECT_EQ(dtype_of<std::uint8_t>(), DType::u8);
  EXPECT_EQ(dtype_of<std::int16_t>(), DType::i16);
  EXPECT_EQ(dtype_of<std::uint16_t>(), DType::u16);
  EXPECT_EQ(dtype_of<int>(), DType::i32);
  EXPECT_EQ(dtype_of<unsigned>(), DType::u32);
  EXPECT_EQ(dtype_of<long long>(), DType::i64);
  EXPECT_EQ(dtype_of<std::size_t>(), DType::u64);
  EXPECT_EQ(dtype_of<bool>(), DType::boolean);
  EXPECT_EQ(dtype_of<f8_e4m3>(), DType::f8_e4m3);
  static_assert(!Element<std::string> && !ElementRange<std::vector<bool>>);
  static_assert(!ElementRange<std::list<float>> && ElementRange<std::array<double, 3>>);
}

TEST(Views, AreMadeFromContiguousRanges) {
  std::vector<float> values(5);
  const Tensor tensor(values);
  EXPECT_EQ(tensor.data, values.data());
  EXPECT_EQ(tensor.count, 5U);
  EXPECT_EQ(tensor.dtype, DType::f32);
  EXPECT_EQ(tensor.bytes(), 20U);
  const std::vector<std::int16_t> fixed(3);
  const ConstTensor read_only(fixed);
  EXPECT_EQ(read_only.dtype, DType::i16);
  EXPECT_EQ(read_only.bytes(), 6U);
  EXPECT_EQ(ConstTensor(tensor).data, values.data());
  static_assert(!std::is_constructible_v<Tensor, const std::vector<float>&>);
}

}  // namespace
}  // namespace anello
