#include "tests/conformance/cases.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <unordered_set>

#include "ring/base/algorithm.hpp"

namespace anello::conformance {
namespace {

// The sets of two or three values of different dimensions that occur together.
std::unordered_set<std::uint64_t> met(const std::vector<Case>& cases, std::size_t together) {
  std::unordered_set<std::uint64_t> all;
  for (const Case& each : cases) {
    std::uint64_t dimension = 0;
    auto values = each.values();
    for (std::uint64_t& value : values) value |= dimension++ << 16;
    for (std::size_t a = 0; a < values.size(); a++)
      for (std::size_t b = 0; b < a; b++) {
        const std::uint64_t pair = values[a] << 20 | values[b];
        if (together == 2) all.insert(pair);
        for (std::size_t c = 0; together == 3 && c < b; c++) all.insert(pair << 20 | values[c]);
      }
  }
  return all;
}

TEST(Cases, PairsAreFewAndLeaveNothingOut) {
  const std::vector<Case> all = product({1, 2, 3, 4, 5, 6, 7, 8}), some = covering(all, 2);
  EXPECT_LT(some.size() * 100, all.size());
  EXPECT_TRUE(met(some, 2) == met(all, 2));
}

TEST(Cases, TriplesAreFewAndLeaveNothingOut) {
  const std::vector<Case> all = product({1, 2, 3}), some = covering(all, 3);
  EXPECT_LT(some.size() * 10, all.size());
  EXPECT_TRUE(met(some, 3) == met(all, 3));
}

TEST(Cases, AreAllOfWhatThereIs) {
  const std::vector<Case> all = product({1, 3});
  std::map<std::size_t, std::set<std::uint64_t>> values;
  for (const Case& each : all) {
    const auto its = each.values();
    for (std::size_t k = 0; k < its.size(); k++) values[k].insert(its[k]);
  }
  EXPECT_EQ(values[0].size(), 8u) << "collectives that move data";
  EXPECT_EQ(values[1].size(), 15u) << "element types";
  EXPECT_EQ(values[2].size(), 8u) << "reductions";
  EXPECT_EQ(values[3].size(), 2u) << "in place or not";
  EXPECT_EQ(values[5].size(), 8u) << "counts: 0 to 4, and three large ones";
  EXPECT_EQ(values[6].size(), all_algorithms().size() + 1) << "algorithms, and the choice between them";
  EXPECT_EQ(values[7].size(), 5u) << "ways";
  EXPECT_EQ(values[8].size(), 3u) << "roots";
  EXPECT_EQ(values[9].size(), 3u) << "types on the wire";
}

TEST(Cases, AreTheSameEveryTime) {
  const std::vector<Case> one = product({2}), other = product({2});
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t k = 0; k < one.size(); k++) ASSERT_EQ(one[k].values(), other[k].values());
}

}  // namespace
}  // namespace anello::conformance
