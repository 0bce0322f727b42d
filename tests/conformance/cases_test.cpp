#include "tests/conformance/cases.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "ring/base/algorithm.hpp"

namespace anello::conformance {
namespace {

using Pair = std::pair<std::pair<std::size_t, std::uint64_t>, std::pair<std::size_t, std::uint64_t>>;

std::set<Pair> pairs(const std::vector<Case>& cases) {
  std::set<Pair> all;
  for (const Case& each : cases) {
    const auto values = each.values();
    for (std::size_t a = 0; a < values.size(); a++)
      for (std::size_t b = 0; b < a; b++) all.insert({{a, values[a]}, {b, values[b]}});
  }
  return all;
}

TEST(Cases, TheCoveringOnesAreFewAndLeaveNothingOut) {
  const std::vector<Case> all = product({1, 2, 3, 4, 5, 6, 7, 8}), some = covering(all);
  EXPECT_LT(some.size() * 100, all.size());
  EXPECT_EQ(pairs(some), pairs(all));
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
  EXPECT_EQ(values[5].size(), 5u) << "counts";
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
