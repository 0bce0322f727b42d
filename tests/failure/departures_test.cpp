// Random histories of ranks that leave, together and one after another. The other ranks must receive which ranks have
// left, and after how many operations each of them left. No rank may be considered dead, and a later death must be
// noticed.
#include "ring/failure/departures.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/support/agreement_worlds.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::uint64_t kGroup = 5;

// Two or more ranks stay; they are connected with each other from the beginning. The others leave a group of all ranks
// and then the world, in random order, many at the same time.
class History {
 public:
  explicit History(Assembly& assembly) : assembly_(assembly) {
    std::vector<int> all(std::size_t(assembly.size()));
    std::iota(all.begin(), all.end(), 0);
    for (const int rank : all) assembly[rank].enroll(kGroup, "a group of all", all, assembly.now());
    const std::set<int> stay = any_connected(assembly.random().from(2, all.size() - 1));
    for (const int rank : all)
      if (!stay.contains(rank)) left_.push_back(rank);
    assembly.random().shuffle(left_);
    for (const int rank : left_) leave(rank);
    assembly.advance(ControlGraph::kMendAfter);
  }

  const std::vector<int>& left() const { return left_; }
  bool has_left(int rank) const { return std::ranges::count(left_, rank) > 0; }
  static std::uint64_t completed(int rank, std::uint64_t group) {  // equal for most ranks
    return group + std::uint64_t(rank % 4 == 0);
  }

 private:
  std::set<int> any_connected(std::size_t count) const {
    std::set<int> ranks{any_rank(assembly_)};
    while (ranks.size() < count) {
      const std::vector<int> chosen(ranks.begin(), ranks.end());
      ranks.insert(assembly_.random().one_of(control_neighbours(assembly_.random().one_of(chosen), assembly_.size())));
    }
    return ranks;
  }

  // A goodbye is lost if it reaches only ranks that have already left. So while a rank leaves whose neighbours all
  // leave, nothing else happens.
  void leave(int rank) {
    const bool alone =
        std::ranges::all_of(control_neighbours(rank, assembly_.size()), [this](int other) { return has_left(other); });
    if (alone) assembly_.advance(ControlGraph::kMendAfter);
    assembly_[rank].leave(kGroup, completed(rank, kGroup));
    if (assembly_.random().percent(20)) assembly_.deliver_some();
    assembly_.depart(rank, completed(rank, 0));
    if (assembly_.random().percent(30)) assembly_.deliver_some();
    if (alone || assembly_.random().percent(10)) assembly_.advance(ControlGraph::kMendAfter);
  }

  Assembly& assembly_;
  std::vector<int> left_;
};

TEST(DepartureHistories, AllThatRemainKnowWhoHasLeftAndNobodyIsDead) {
  in_many_worlds(4, [](Assembly& assembly) {
    const History history(assembly);
    for (const int rank : assembly.alive())
      for (int other = 0; other < assembly.size(); other++)
        EXPECT_EQ(assembly[rank].has_left(other), history.has_left(other)) << rank << " about " << other;
    assembly.advance(milliseconds(2000));
    expect_no_verdict(assembly);
  });
}

// A rank waits for a rank that has left: in an operation, or on a data connection that ends.
TEST(DepartureHistories, AWaitForARankThatHasLeftNamesIt) {
  in_many_worlds(4, [](Assembly& assembly) {
    const History history(assembly);
    const int gone = assembly.random().one_of(history.left()), waits = any_of(assembly);
    const std::uint64_t group = assembly.random().percent(50) ? kGroup : 0;
    Signature operation = anello::operation(group + 1, 100);
    operation.group = group;
    const bool suspects = assembly.random().percent(50);
    if (suspects)
      assembly[waits].suspect(gone, group, "the connection was closed", assembly.now());
    else
      assembly[waits].needs(operation, assembly.now());
    assembly.advance(FailureDetector::kSuspicionLimit);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_left) << verdict.message;
    EXPECT_TRUE(history.has_left(verdict.culprit)) << verdict.message;
    EXPECT_TRUE(!suspects || verdict.culprit == gone) << verdict.message;
    const auto after = History::completed(verdict.culprit, suspects ? 0 : group);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", verdict.culprit, " on host", verdict.culprit, " left ")));
    EXPECT_THAT(verdict.message, HasSubstr(text(" after ", after, " operations")));
  });
}

// Goodbyes are still under way.
TEST(DepartureHistories, ASuspectThatLeavesAtTheSameTimeIsNotDead) {
  in_many_worlds(4, [](Assembly& assembly) {
    const int gone = any_rank(assembly), waits = (gone + 1 + int(assembly.random().below(3))) % assembly.size();
    assembly.depart(gone, 3);
    assembly[waits].suspect(gone, 0, "the connection was closed", assembly.now());
    assembly.advance(FailureDetector::kSuspicionLimit);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_left) << verdict.message;
    EXPECT_EQ(verdict.culprit, gone);
  });
}

TEST(DepartureHistories, ADeathOfARankThatRemainsIsNoticed) {
  in_many_worlds(4, [](Assembly& assembly) {
    const History history(assembly);
    const int dead = any_of(assembly);
    assembly.kill(dead);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_dead);
    EXPECT_EQ(verdict.culprit, dead);
  });
}

// After its neighbours have left, a rank has no connection with a remaining rank, and dies before the others make new
// connections.
TEST(DepartureHistories, ADeathRightAfterAllNeighboursLeftIsNoticed) {
  in_many_worlds(6, [](Assembly& assembly) {
    const int dead = any_rank(assembly);
    std::vector<int> neighbours = control_neighbours(dead, assembly.size());
    if (int(neighbours.size()) + 2 > assembly.size()) return;
    assembly.random().shuffle(neighbours);
    for (const int rank : neighbours) {
      assembly.depart(rank);
      if (assembly.random().percent(50)) assembly.deliver_all();
    }
    assembly.deliver_all();
    assembly.kill(dead);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_dead);
    EXPECT_EQ(verdict.culprit, dead);
  });
}

}  // namespace
}  // namespace anello::failure
