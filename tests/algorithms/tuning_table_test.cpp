#include "ring/algorithms/tuning_table.hpp"

#include <gmock/gmock.h>
#include <anello/error.hpp>

#include <string>
#include <vector>

namespace anello::algorithms {
namespace {

using testing::HasSubstr;

constexpr const char* kText = R"(# world hosts medium cores bytes algorithm slab
4 1 memory shared 8192 star suitable   # little

4 1 memory shared 1048576 auto suitable
4 1 memory shared any chain 262144
2 2 tcp own any halving 0
)";

Facts four(std::uint64_t bytes) {
  return {.world = 4, .oversubscribed = true, .memory = true, .bytes = bytes, .elem_bytes = 4};
}

TEST(Table, GoesBeforeTheShippedOne) {
  const Table table = parse_table(kText);
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(choose(four(8192), table).algorithm, Algorithm::star);
  EXPECT_EQ(choose(four(8192), table).reason, "the table's");
  const Choice large = choose(four(16 << 20), table);
  EXPECT_EQ(large.algorithm, Algorithm::chain);
  EXPECT_EQ(large.slab_elems, (256U << 10) / 4);
  EXPECT_EQ(choose({.world = 2, .hosts = 2, .bytes = 4 << 20, .elem_bytes = 4}, table).algorithm, Algorithm::halving);
}

TEST(Table, LeavesTheRestToTheShippedOne) {
  const Table table = parse_table(kText);
  const auto as_shipped = [&](const Facts& facts) {
    const Choice with = choose(facts, table), without = choose(facts);
    return with.algorithm == without.algorithm && with.slab_elems == without.slab_elems &&
           with.reason == without.reason;
  };
  EXPECT_TRUE(as_shipped(four(8193))) << "auto";
  for (Facts other : {four(4), four(4), four(4), four(4)}) {
    static int which = 0;
    switch (which++) {
      case 0:
        other.world = 3;
        break;
      case 1:
        other.hosts = 2;
        break;
      case 2:
        other.memory = false;
        break;
      default:
        other.oversubscribed = false;
    }
    EXPECT_TRUE(as_shipped(other)) << layout(other);
  }
}

TEST(Table, WhatIsForcedAndRankOrderGoFirst) {
  const Table table = parse_table(kText);
  Facts facts = four(4);
  facts.forced = Algorithm::tree;
  EXPECT_EQ(choose(facts, table).algorithm, Algorithm::tree);
  facts = four(16 << 20);
  facts.slab_bytes = 4 << 20;
  EXPECT_EQ(choose(facts, table).slab_elems, 1U << 20) << "ANELLO_SLAB_BYTES";
  facts = {.world = 2, .hosts = 2, .bytes = 4 << 20, .elem_bytes = 4, .rank_order = true};
  EXPECT_EQ(choose(facts, table).algorithm, choose(facts).algorithm) << "halving cannot";
}

TEST(Table, IsWrittenAsItIsRead) {
  const Table table = parse_table(kText);
  std::string written = table_headline();
  for (const TableRow& row : table) written += to_text(row);
  const Table again = parse_table(written);
  ASSERT_EQ(again.size(), table.size());
  for (std::size_t i = 0; i < table.size(); i++) EXPECT_EQ(to_text(again[i]), to_text(table[i]));
  EXPECT_EQ(to_text(table[2]), "4 1 memory shared any chain 262144\n");
  EXPECT_EQ(layout(four(0)), "4 1 memory shared");
}

TEST(Table, SaysWhichLineIsWrongAndWhy) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"4 1 memory shared any ring", "line 2: 6 words instead of 7"},
      {"1 1 memory shared any ring 0", "world '1' is not a whole number from 2"},
      {"4 0 memory shared any ring 0", "hosts '0' is not"},
      {"4 1 infiniband shared any ring 0", "medium 'infiniband' is not tcp or memory"},
      {"4 1 tcp some any ring 0", "cores 'some' is not own or shared"},
      {"4 1 tcp own -1 ring 0", "bytes '-1' is not"},
      {"4 1 tcp own any rong 0", "algorithm 'rong' is not one of auto, ring"},
      {"4 1 tcp own any ring 4M", "slab '4M' is not a whole number"},
  };
  for (const auto& [line, why] : wrong) try {
      parse_table("# first\n" + line);
      ADD_FAILURE() << line;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::configuration);
      EXPECT_THAT(e.what(), HasSubstr(why));
      EXPECT_THAT(e.what(), HasSubstr("line 2: "));
    }
}

}  // namespace
}  // namespace anello::algorithms
