#include "bench/options.hpp"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <anello/error.hpp>

namespace anello::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Options parse(std::string flags) {
  CLI::App app;
  Options options;
  add_flags(*app.add_subcommand("allreduce"), options);
  app.parse("allreduce " + flags);
  return options;
}

std::string refusal(const std::string& flags) {
  try {
    parse(flags);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Sizes, AreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_size("-b", "4"), 4U);
  EXPECT_EQ(parse_size("-b", "0"), 0U);
  EXPECT_EQ(parse_size("-b", "64K"), 65536U);
  EXPECT_EQ(parse_size("-b", "64k"), 65536U);
  EXPECT_EQ(parse_size("-b", "64KiB"), 65536U);
  EXPECT_EQ(parse_size("-b", "64KB"), 65536U);
  EXPECT_EQ(parse_size("-b", "12B"), 12U);
  EXPECT_EQ(parse_size("-b", "256M"), 268435456U);
  EXPECT_EQ(parse_size("-b", "1G"), 1073741824U);
  EXPECT_EQ(parse_size("-b", "2T"), 2199023255552U);
}

TEST(Sizes, WhatIsNoneIsRefusedByFlagAndText) {
  for (const std::string given :
       {"", "K", "-4", "4.5M", "4 K", "4X", "4iB", "4KK", "99999999999999999999", "9000000T"}) {
    try {
      parse_size("-e", given);
      FAIL() << given;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("-e '" + given + "' is not a size such as"));
    }
  }
}

TEST(Sizes, GrowByFactorOrIncrement) {
  EXPECT_THAT(parse("-b 4 -e 64 -f 2").sizes, ElementsAre(4, 8, 16, 32, 64));
  EXPECT_THAT(parse("-b 4 -e 100 -f 4").sizes, ElementsAre(4, 16, 64));
  EXPECT_THAT(parse("-b 1K -e 2K -i 512").sizes, ElementsAre(1024, 1536, 2048));
  EXPECT_THAT(parse("-b 2 -e 5 -f 1.1").sizes, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(parse("-b 0 -e 4 -f 2").sizes, ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(parse("-b 64M").sizes, ElementsAre(67108864));
  EXPECT_EQ(parse("").sizes.front(), 4U);
  EXPECT_EQ(parse("").sizes.back(), 67108864U);
}

TEST(Sizes, OrAreListed) {
  EXPECT_THAT(parse("-s 4,1M,64K -n 5").sizes, ElementsAre(4, 1048576, 65536));
  EXPECT_THAT(refusal("-s 4,4X"), HasSubstr("-s '4X' is not a size"));
  EXPECT_THAT(refusal("-s 4 -e 64"), HasSubstr("excludes"));
}

TEST(Flags, HaveTheirMeanings) {
  const Options options = parse("-n 50 --budget_ms 70 -w 0 -c 3 -d half -o prod -J out.json");
  EXPECT_EQ(options.iterations, 50);
  EXPECT_EQ(options.budget_ms, 70);
  EXPECT_EQ(options.warmup, 0);
  EXPECT_EQ(options.checks, 3);
  EXPECT_THAT(options.dtypes, ElementsAre(DType::f16));
  EXPECT_THAT(options.ops, ElementsAre(Op::product));
  EXPECT_EQ(options.json, "out.json");
  EXPECT_THAT(parse("-d bf16 -o average").dtypes, ElementsAre(DType::bf16));
  EXPECT_THAT(parse("-d bf16 -o average").ops, ElementsAre(Op::average));
  EXPECT_EQ(parse("-d all -o all").dtypes.size(), 12U);
  EXPECT_EQ(parse("-d all -o all").ops.size(), 5U);
}

TEST(Flags, WrongValuesAreRefusedByName) {
  EXPECT_THAT(refusal("-b 8 -e 4"), HasSubstr("the last size, 4 bytes, is smaller than the first, 8 bytes"));
  EXPECT_THAT(refusal("-f 1"), HasSubstr("sizes must grow"));
  EXPECT_THAT(refusal("-f nan"), HasSubstr("sizes must grow"));
  EXPECT_THAT(refusal("-i 0"), HasSubstr("sizes must grow"));
  EXPECT_THAT(refusal("-b 0 -e 1T -i 1"), HasSubstr("more than 10000 sizes"));
  EXPECT_THAT(refusal("-n 0"), HasSubstr("-n='0' is not a whole number from 1"));
  EXPECT_THAT(refusal("-n 4x"), HasSubstr("-n='4x'"));
  EXPECT_THAT(refusal("-w -1"), HasSubstr("-w='-1'"));
  EXPECT_THAT(refusal("-d floaty"), HasSubstr("-d 'floaty' is not one of float, double"));
  EXPECT_THAT(refusal("-o mean"), HasSubstr("-o 'mean' is not one of sum, prod, min, max, avg, all"));
  EXPECT_THAT(refusal("--frob 1"), HasSubstr("--frob"));
}

}  // namespace
}  // namespace anello::bench
