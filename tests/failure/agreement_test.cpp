// Simulated worlds with random delivery: all ranks must agree on one verdict, in any order of messages. Cases with
// fixed steps are in tests/failure/scripts.
#include "ring/failure/failure_detector.hpp"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "ring/base/text.hpp"
#include "tests/support/agreement_worlds.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kMismatchIsFound{2000};

Verdict any_verdict(int by) {
  return {ErrorCode::aborted, by, text("rank ", by, " had enough")};
}

TEST(FailureAgreement, AProposalBecomesTheVerdictOfAll) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int rank = any_rank(assembly);
    assembly[rank].propose(any_verdict(rank), assembly.now());
    assembly.deliver_all();
    EXPECT_EQ(common_verdict(assembly).culprit, rank);
  });
}

TEST(FailureAgreement, ManyProposalsAtOnceBecomeOneVerdict) {
  in_many_worlds(2, [](Assembly& assembly) {
    for (int rank = 0; rank < assembly.size(); rank++) {
      if (assembly.random().percent(50)) assembly[rank].propose(any_verdict(rank), assembly.now());
      if (assembly.random().percent(30)) assembly.deliver_some();
    }
    assembly[assembly.size() - 1].propose(any_verdict(assembly.size() - 1), assembly.now());
    assembly.deliver_all();
    common_verdict(assembly);
  });
}

TEST(FailureAgreement, TheFirstVerdictStays) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int last = assembly.size() - 1;
    assembly[last].propose(any_verdict(last), assembly.now());
    assembly.deliver_all();
    assembly[0].propose(any_verdict(0), assembly.now());
    assembly[last].lost(0, "gone", assembly.now());
    assembly.deliver_all();
    assembly.advance(milliseconds(1000));
    EXPECT_EQ(common_verdict(assembly).culprit, last);
    EXPECT_FALSE(assembly[0].due());
  });
}

// The survivors agree on the rank that died, even if a rank that is not the arbiter has proposed something at the same
// time.
TEST(FailureAgreement, ADeathIsFoundAndNamed) {
  in_many_worlds(3, [](Assembly& assembly) {
    const int dead = any_rank(assembly);
    assembly.kill(dead);
    assembly.deliver_all();
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_dead);
    EXPECT_EQ(verdict.culprit, dead);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", dead, " on host", dead, " died")));
  });
}

// No rank is connected with all ranks that died, and perhaps the remaining ranks are not connected with each other.
TEST(FailureAgreement, AfterManyDeathsAtOnceNoRankWaitsForADeadArbiter) {
  in_many_worlds(3, [](Assembly& assembly) {
    for (int rank = 0; rank < assembly.size(); rank++)
      if (int(assembly.alive().size()) > 1 && assembly.random().percent(80)) assembly.kill(rank);
    if (int(assembly.alive().size()) == assembly.size()) assembly.kill(0);
    assembly.deliver_all();
    for (const int rank : assembly.alive()) {
      ASSERT_TRUE(assembly[rank].verdict()) << "rank " << rank;
      EXPECT_EQ(assembly[rank].verdict()->code, ErrorCode::rank_dead);
    }
    std::set<int> dead;
    for (int rank = 0; rank < assembly.size(); rank++)
      if (std::ranges::count(assembly.alive(), rank) == 0) dead.insert(rank);
    for (const int rank : assembly.alive()) {
      const std::vector<bool> connected = connected_with(rank, assembly.size(), dead);
      for (const int other : assembly.alive()) {
        const bool differs = assembly[rank].verdict()->culprit != assembly[other].verdict()->culprit;
        EXPECT_FALSE(connected[std::size_t(other)] && differs) << "ranks " << rank << ", " << other;
      }
    }
  });
}

TEST(FailureAgreement, TheArbiterDiesWhileOthersPropose) {
  in_many_worlds(3, [](Assembly& assembly) {
    assembly.kill(0);
    for (int rank = 1; rank < assembly.size(); rank++) {
      if (assembly.random().percent(50)) assembly[rank].propose(any_verdict(rank), assembly.now());
      if (assembly.random().percent(30)) assembly.deliver_some();
    }
    assembly.advance(FailureAgreement::kArbiterLimit);
    common_verdict(assembly);
  });
}

TEST(FailureAgreement, WithoutTheArbitersAnswerAllDecideTheSameAfterALimit) {
  in_many_worlds(3, [](Assembly& assembly) {
    assembly.stop(0);
    for (int rank = 1; rank < assembly.size(); rank++)
      if (assembly.random().percent(50)) assembly[rank].propose(any_verdict(rank), assembly.now());
    assembly[1].propose(any_verdict(1), assembly.now());
    assembly.advance(FailureAgreement::kArbiterLimit - milliseconds(1));
    expect_no_verdict(assembly);
    assembly.advance(milliseconds(1));
    EXPECT_EQ(common_verdict(assembly).culprit, 1);
  });
}

// When the arbiter runs again, it receives all proposals, and the decisions of the other ranks, in any order.
TEST(FailureAgreement, AnArbiterThatDidNotRunAdoptsWhatTheOthersDecided) {
  in_many_worlds(4, [](Assembly& assembly) {
    assembly.pause(0);
    for (const int dead : {2, assembly.size() - 1}) {
      assembly.kill(dead);
      assembly.deliver_some();
    }
    assembly.advance(FailureAgreement::kArbiterLimit);
    assembly.resume(0);
    assembly.advance(milliseconds(100));
    EXPECT_EQ(common_verdict(assembly).code, ErrorCode::rank_dead);
  });
}

// The arbiter received a proposal long ago, but has not run since then.
TEST(FailureAgreement, AnArbiterThatDidNotRunDecidesForTheLowestRank) {
  in_many_worlds(3, [](Assembly& assembly) {
    assembly.pause(0);
    assembly[2].propose(any_verdict(2), assembly.now());
    assembly[1].propose(any_verdict(1), assembly.now());
    assembly.advance(FailureAgreement::kArbiterLimit - milliseconds(1));
    assembly.resume(0);
    assembly.deliver_all();
    EXPECT_FALSE(assembly[0].verdict());
    assembly.advance(milliseconds(100));
    EXPECT_EQ(common_verdict(assembly).culprit, 1);
  });
}

// The rank that makes the proposal leaves without waiting for an answer.
TEST(FailureAgreement, AProposalOfARankThatLeavesAtOnceCounts) {
  in_many_worlds(3, [](Assembly& assembly) {
    const int last = assembly.size() - 1;
    if (assembly.random().percent(50)) assembly.stop(0);
    assembly[last].propose(any_verdict(last), assembly.now());
    assembly[last].leave(0, 0);
    assembly.step();  // its messages are under way
    assembly.stop(last);
    assembly.advance(FailureAgreement::kArbiterLimit);
    EXPECT_EQ(common_verdict(assembly).culprit, last);
  });
}

// A rank aborts and leaves. The arbiter cannot decide for some time, and meanwhile the others notice that the rank is
// gone.
TEST(FailureAgreement, ARankThatAbortsAndLeavesIsNotNamedForLeaving) {
  in_many_worlds(3, [](Assembly& assembly) {
    const bool arbiter_returns = assembly.random().percent(50);
    if (arbiter_returns)
      assembly.pause(0);
    else
      assembly.stop(0);
    const int last = assembly.size() - 1;
    assembly[last].propose(any_verdict(last), assembly.now());
    assembly[last].leave(0, 7);
    assembly.deliver_all();
    assembly.stop(last);
    if (arbiter_returns) assembly.resume(0);
    assembly.deliver_all();
    for (const int rank : assembly.alive()) assembly[rank].needs(operation(7, 100), assembly.now());
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::aborted) << verdict.message;
    EXPECT_EQ(verdict.culprit, last);
  });
}

TEST(FailureAgreement, EachPartOfADividedWorldComesToOneVerdict) {
  in_many_worlds(4, [](Assembly& assembly) {
    const int half = assembly.size() / 2;
    for (int a = 0; a < half; a++)
      for (int b = half; b < assembly.size(); b++) {
        assembly.cut(a, b);
        assembly[a].lost(b, "cut off", assembly.now());
        assembly[b].lost(a, "cut off", assembly.now());
      }
    assembly.advance(FailureAgreement::kArbiterLimit);
    for (const auto& [first, last] : {std::pair(0, half), std::pair(half, assembly.size())})
      for (int rank = first; rank < last; rank++) {
        ASSERT_TRUE(assembly[rank].verdict()) << "rank " << rank;
        EXPECT_EQ(assembly[rank].verdict()->code, ErrorCode::rank_dead);
        EXPECT_EQ(assembly[rank].verdict()->culprit < half, rank >= half) << "one of the other part";
      }
  });
}

TEST(FailureAgreement, AGoodbyeIsNotADeath) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int gone = any_rank(assembly);
    assembly[gone].leave(0, 7);
    assembly.deliver_all();
    assembly.kill(gone);
    assembly.deliver_all();
    assembly.advance(milliseconds(1000));
    expect_no_verdict(assembly);
    for (const int rank : assembly.alive()) {
      EXPECT_TRUE(assembly[rank].has_left(gone));
      EXPECT_EQ(assembly[rank].ends_at(0), 7);
    }
  });
}

// Some ranks leave at the same time, so that goodbyes are lost.
TEST(FailureAgreement, RanksThatRemainNameTheRankThatDied) {
  in_many_worlds(4, [](Assembly& assembly) {
    for (int rank = 0; rank < assembly.size(); rank++) {
      if (assembly.alive().size() == 2) break;
      if (assembly.random().percent(60)) assembly.depart(any_of(assembly));
      if (assembly.random().percent(30)) assembly.deliver_some();
      if (assembly.random().percent(20)) assembly.advance(ControlGraph::kMendAfter);
    }
    assembly.advance(ControlGraph::kMendAfter);
    expect_no_verdict(assembly);
    const int dead = any_of(assembly);
    assembly.kill(dead);
    assembly.advance(FailureAgreement::kArbiterLimit);
    EXPECT_EQ(common_verdict(assembly).culprit, dead);
  });
}

TEST(FailureAgreement, AnOperationThatNeedsADepartedRankEndsTheWorld) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int gone = any_rank(assembly), caller = (gone + 1) % assembly.size();
    assembly[gone].leave(0, 7);
    assembly.deliver_all();
    assembly[caller].needs(operation(6, 100), assembly.now());
    assembly.deliver_all();
    expect_no_verdict(assembly);
    assembly[caller].needs(operation(7, 100), assembly.now());
    assembly.stop(gone);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_left);
    EXPECT_EQ(verdict.culprit, gone);
    EXPECT_THAT(verdict.message, AllOf(HasSubstr(text("rank ", gone, " on host", gone, " left")),
                                       HasSubstr("after 7 operations"), HasSubstr("allreduce #7 (sum of 100 f32)")));
  });
}

// Each rank calls one of three operations, or no operation.
TEST(FailureAgreement, AMismatchIsTheFaultOfTheRanksOutsideOfAMajority) {
  in_many_worlds(2, [](Assembly& assembly) {
    Random& random = assembly.random();
    std::map<std::uint64_t, std::vector<int>> by_count;
    std::vector<int> order(std::size_t(assembly.size()));
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    const unsigned agree = random.percent(50) ? 80 : 50, pauses = 7;
    unsigned paused = 0;
    for (const int rank : order) {
      if (random.percent(10)) continue;  // this rank does not call the operation
      const std::uint64_t count = random.percent(agree) ? 100 : 101 + random.below(2);
      by_count[count].push_back(rank);
      assembly.begin(rank, operation(3, count));
      assembly[rank].waiting(operation(3, count), assembly.now());
      if (random.percent(50)) assembly.deliver_some();
      if (paused < pauses && random.percent(30)) assembly.advance(milliseconds(20 * paused++ / pauses));
    }
    assembly.run(milliseconds(2000));
    if (by_count.size() < 2) return expect_no_verdict(assembly);
    int culprit = -1;
    for (const auto& [count, ranks] : by_count) {
      if (2 * ranks.size() <= std::size_t(assembly.size())) continue;
      for (const auto& [other, odd] : by_count)
        if (const int lowest = *std::ranges::min_element(odd); other != count && (culprit < 0 || lowest < culprit))
          culprit = lowest;
    }
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::mismatch);
    EXPECT_EQ(verdict.culprit, culprit) << verdict.message;
    for (const auto& [count, ranks] : by_count)
      EXPECT_THAT(verdict.message, HasSubstr(text(" allreduce #3 (sum of ", count, " f32)")));
  });
}

TEST(FailureAgreement, RanksThatWaitInTheSameOperationAreNotAMismatch) {
  in_many_worlds(2, [](Assembly& assembly) {
    for (int rank = 0; rank < assembly.size(); rank++) {
      for (const std::uint64_t sequence : {3, 4}) {
        assembly.begin(rank, operation(sequence, 10 * sequence));
        if (sequence == 3 || rank != 0) assembly[rank].waiting(operation(sequence, 10 * sequence), assembly.now());
      }
      assembly.deliver_some();
    }
    assembly.advance(milliseconds(1000));
    expect_no_verdict(assembly);
  });
}

// One rank completed a different operation as #3, and waits in operation #4.
TEST(FailureAgreement, ARankThatIsAheadThroughSomethingElseIsFound) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int odd = any_rank(assembly);
    for (int rank = 0; rank < assembly.size(); rank++) {
      assembly.begin(rank, operation(3, rank == odd ? 101 : 100));
      if (rank == odd) assembly.begin(rank, operation(4, 7));
      assembly[rank].waiting(rank == odd ? operation(4, 7) : operation(3, 100), assembly.now());
    }
    assembly.run(kMismatchIsFound);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::mismatch);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", odd, " calls allreduce #3 (sum of 101 f32)")));
  });
}

TEST(FailureAgreement, ARankThatLeftThroughSomethingElseIsFound) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int odd = any_rank(assembly), other = (odd + 1) % assembly.size();
    assembly.begin(odd, operation(3, 101));
    assembly.begin(other, operation(3, 100));
    assembly[odd].leave(0, 4);
    if (assembly.random().percent(50)) assembly.deliver_all();
    assembly[other].waiting(operation(3, 100), assembly.now());
    assembly.step();
    assembly.deliver_all();
    assembly.stop(odd);
    assembly.run(kMismatchIsFound + FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::mismatch);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", odd, " calls allreduce #3 (sum of 101 f32)")));
  });
}

TEST(FailureAgreement, ALongReasonIsCutOnAllRanks) {
  Assembly assembly(3, 1);
  assembly[0].propose({ErrorCode::aborted, 0, std::string(10000, 'x')}, assembly.now());
  assembly.deliver_all();
  EXPECT_LE(common_verdict(assembly).message.size(), ControlMessage::kMaxMessageBytes);
}

TEST(FailureAgreement, ASilentRankIsFoundAndNamed) {
  in_many_worlds(3, [](Assembly& assembly) {
    const int silent = any_rank(assembly);
    assembly.stop(silent);
    const int finder = (silent + 1) % assembly.size();
    assembly[finder].silent(silent, milliseconds(3000), assembly.now());
    assembly.deliver_all();
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_silent);
    EXPECT_EQ(verdict.culprit, silent);
    EXPECT_THAT(verdict.message,
                AllOf(HasSubstr(text("rank ", silent, " on host", silent, " is silent")),
                      HasSubstr(text("and rank ", finder, " is cut; nothing was received for 3000 ms"))));
  });
}

TEST(FailureAgreement, ARankThatHasLeftMayBeSilent) {
  in_many_worlds(2, [](Assembly& assembly) {
    assembly[1].leave(0, 0);
    assembly.deliver_all();
    assembly[0].silent(1, milliseconds(3000), assembly.now());
    assembly.deliver_all();
    expect_no_verdict(assembly);
  });
}

}  // namespace
}  // namespace anello::failure
