#include "rendezvous/server/assign.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/rendezvous/joins.hpp"

namespace anello::rendezvous {
namespace {

using testing::ElementsAre;

template <class Field>
std::vector<int> column(const std::vector<Assigned>& rows, Field Assigned::*field) {
  std::vector<int> out;
  out.reserve(rows.size());
  for (const Assigned& row : rows) out.push_back(int(row.*field));
  return out;
}

TEST(Assign, RanksOfAHostAreContiguousInOrderOfTheHostsNames) {
  const auto rows = assign({on("b"), on("a"), on("b"), on("c"), on("a"), on("b")}, 5);
  EXPECT_THAT(column(rows, &Assigned::rank), ElementsAre(2, 0, 3, 5, 1, 4));
  EXPECT_THAT(column(rows, &Assigned::local_rank), ElementsAre(0, 0, 1, 0, 1, 2));
  EXPECT_THAT(column(rows, &Assigned::local_size), ElementsAre(3, 2, 3, 1, 2, 3));
  EXPECT_THAT(column(rows, &Assigned::node_rank), ElementsAre(1, 0, 1, 2, 0, 1));
  EXPECT_THAT(column(rows, &Assigned::node_count), ElementsAre(3, 3, 3, 3, 3, 3));
  EXPECT_THAT(column(rows, &Assigned::size), ElementsAre(6, 6, 6, 6, 6, 6));
  EXPECT_THAT(column(rows, &Assigned::generation), ElementsAre(5, 5, 5, 5, 5, 5));
}

TEST(Assign, GivenRanksAreHonouredAlsoWhereTheyAreNotContiguous) {
  const auto rows = assign({on("a", 2), on("b", 3), on("b", 1), on("a", 0)}, 1);
  EXPECT_THAT(column(rows, &Assigned::rank), ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(column(rows, &Assigned::local_rank), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(column(rows, &Assigned::node_rank), ElementsAre(0, 1, 1, 0));
}

TEST(Assign, TheOthersFillTheGapsHostByHost) {
  const auto rows = assign({on("b"), on("a"), on("c", 2), on("a"), on("b"), on("a", 0)}, 1);
  EXPECT_THAT(column(rows, &Assigned::rank), ElementsAre(4, 1, 2, 3, 5, 0));
}

TEST(Assign, GivenLocalRanksCountWhereTheyFit) {
  const auto fits = assign({on("a", -1, -1, 1), on("a", -1, -1, 0)}, 1);
  EXPECT_THAT(column(fits, &Assigned::local_rank), ElementsAre(1, 0));
  EXPECT_THAT(column(fits, &Assigned::rank), ElementsAre(1, 0));
  const auto against_the_ranks = assign({on("a", 0, -1, 1), on("a", 1, -1, 0)}, 1);
  EXPECT_THAT(column(against_the_ranks, &Assigned::local_rank), ElementsAre(1, 0));
  // There are two launchers on one host, each of which counts from zero.
  const auto twice = assign({on("a", 0, -1, 0), on("a", 1, -1, 1), on("a", 2, -1, 0), on("a", 3, -1, 1)}, 1);
  EXPECT_THAT(column(twice, &Assigned::local_rank), ElementsAre(0, 1, 2, 3));
}

TEST(Assign, HostsOfOneNameLookDifferent) {
  std::vector<Join> joined = {on("localhost"), on("localhost"), on("localhost")};
  joined[1].machine = "the kernel of another host";
  const auto rows = assign(joined, 1);
  EXPECT_THAT(column(rows, &Assigned::node_rank), ElementsAre(0, 1, 0));
  EXPECT_EQ(rows[0].host, "localhost");
  EXPECT_EQ(rows[1].host, "localhost (node 1)");
  EXPECT_EQ(rows[2].host, "localhost");
}

// Whatever ranks are given, the assigned numbers fit together.
TEST(Assign, NumbersAlwaysFitTogether) {
  for (unsigned seed = 0; seed < 500; seed++) {
    std::mt19937 random(seed);
    const int size = 1 + int(random() % 12), hosts = 1 + int(random() % 4), share = int(random() % 5);
    std::vector<int> free(std::size_t(size), 0);
    for (int i = 0; i < size; i++) free[std::size_t(i)] = i;
    std::shuffle(free.begin(), free.end(), random);
    std::vector<Join> joined;
    joined.reserve(std::size_t(size));
    for (int i = 0; i < size; i++)
      joined.push_back(on("host" + std::to_string(int(random()) % hosts),
                          int(random() % 4) < share ? free[std::size_t(i)] : -1, -1, int(random() % 3) - 1));
    const auto rows = assign(joined, 1);
    std::set<int> ranks;
    std::map<std::string, std::set<int>> local_ranks;
    std::map<std::string, int> node_ranks, lowest;
    for (std::size_t i = 0; i < rows.size(); i++) {
      EXPECT_TRUE(joined[i].rank < 0 || rows[i].rank == joined[i].rank);
      EXPECT_TRUE(ranks.insert(rows[i].rank).second);
      EXPECT_TRUE(local_ranks[joined[i].host].insert(rows[i].local_rank).second);
      const auto [at, first] = node_ranks.emplace(joined[i].host, rows[i].node_rank);
      EXPECT_TRUE(first || at->second == rows[i].node_rank);
      const auto [low, fresh] = lowest.emplace(joined[i].host, rows[i].rank);
      if (!fresh) low->second = std::min(low->second, rows[i].rank);
    }
    EXPECT_EQ(*ranks.rbegin(), size - 1);
    for (std::size_t i = 0; i < rows.size(); i++) {
      EXPECT_EQ(rows[i].local_size, int(local_ranks[joined[i].host].size()));
      EXPECT_EQ(*local_ranks[joined[i].host].rbegin(), rows[i].local_size - 1);
      EXPECT_EQ(rows[i].node_count, int(node_ranks.size()));
    }
    for (const auto& [a, a_node] : node_ranks)
      for (const auto& [b, b_node] : node_ranks) EXPECT_EQ(a_node < b_node, lowest[a] < lowest[b]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace anello::rendezvous
