// The MismatchDetector of one rank without the others, and the judgement of who is at fault in a conflict.
#include "ring/failure/mismatches.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "tests/failure/alone.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Type = ControlMessage::Type;

// Returns the verdict of the rank without further messages.
Verdict judged(MismatchDetector& detector) {
  for (milliseconds now = kFirstMoment; detector.due(); now = std::max(now, *detector.due()))
    if (const auto verdict = detector.tick(now)) return *verdict;
  return {ErrorCode::aborted, -1, "no verdict"};
}

TEST(MismatchDetectorAlone, BlamesTheRankThatDiffersFromMost) {
  for (const int odd : {0, 2, 3}) {
    Alone alone(1, 4);
    MismatchDetector& detector = alone.mismatches;
    detector.waiting(operation(7, 100), kFirstMoment);
    detector.receive_call(0, operation(8, 1), kFirstMoment);  // a different sequence number
    for (const int other : {0, 2, 3})
      detector.receive_call(other, operation(7, other == odd ? 101 : 100), kFirstMoment);
    EXPECT_LE(detector.due().value(), kFirstMoment + milliseconds(150)) << "all have said what they called";
    EXPECT_EQ(judged(detector).culprit, odd);
  }
}

TEST(MismatchDetectorAlone, BlamesItself) {
  Alone alone(1, 4);
  alone.mismatches.waiting(operation(7, 101), kFirstMoment);
  for (const int other : {0, 2, 3}) alone.mismatches.receive_call(other, operation(7, 100), kFirstMoment);
  EXPECT_EQ(judged(alone.mismatches).culprit, 1);
}

TEST(MismatchDetectorAlone, GivesAllOperationsWithTheirNames) {
  const NamedSignature mine(operation(7, 101), "weights");
  Alone alone(1, 4, [&](auto, std::uint64_t sequence) { return sequence == 7 ? std::optional(mine) : std::nullopt; });
  for (const int other : {0, 2, 3})
    alone.mismatches.receive_call(other, NamedSignature(operation(7, 100), "loss"), kFirstMoment);
  EXPECT_EQ(judged(alone.mismatches).message,
            "the counts differ: rank 1 calls allreduce #7 (sum of 101 f32) 'weights', ranks 0, 2, 3 call allreduce #7 "
            "(sum of 100 f32) 'loss'");
}

TEST(MismatchDetectorAlone, SaysWhatItCalledWhenItLearnsOfAConflict) {
  const NamedSignature mine(operation(7, 100), "loss");
  bool begun = false;
  Alone alone(1, 4, [&](auto, std::uint64_t) { return begun ? std::optional(mine) : std::nullopt; });
  alone.mismatches.receive_call(0, operation(7, 100), kFirstMoment);
  EXPECT_FALSE(alone.mismatches.due()) << "there is no conflict";
  alone.mismatches.receive_call(2, operation(7, 101), kFirstMoment);
  EXPECT_THAT(sent(alone.flood), IsEmpty()) << "it has called nothing";
  begun = true;
  EXPECT_FALSE(alone.mismatches.tick(alone.mismatches.due().value()));
  const auto said = sent(alone.flood);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].type, Type::called);
  EXPECT_EQ(said[0].calls.front().name, "loss");
  alone.mismatches.receive_call(3, operation(7, 101), kFirstMoment);
  EXPECT_THAT(sent(alone.flood), IsEmpty()) << "once is enough";
}

// A signature on a data connection does not contain a name.
TEST(MismatchDetectorAlone, AsksThePeerBeforeItProposesWhatADataConnectionShowed) {
  const NamedSignature mine(operation(7, 101), "weights"), theirs(operation(7, 100), "loss");
  const Verdict shown{ErrorCode::mismatch, -1, "the numbers differ"};
  const auto recall = [&](auto, std::uint64_t sequence) { return sequence == 7 ? std::optional(mine) : std::nullopt; };
  Alone alone(1, 4, recall), behind(1, 4, recall);
  alone.mismatches.differs(mine, 0, operation(7, 100), shown, kFirstMoment);
  const auto said = sent(alone.flood);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].type, Type::called);
  EXPECT_EQ(said[0].calls.front().name, "weights");
  alone.mismatches.receive_call(0, theirs, kFirstMoment);
  EXPECT_THAT(judged(alone.mismatches).message,
              testing::AllOf(HasSubstr("rank 0 calls allreduce #7 (sum of 100 f32) 'loss'"),
                             HasSubstr("rank 1 calls allreduce #7 (sum of 101 f32) 'weights'"),
                             HasSubstr("; ranks 2, 3 have not called it; no call has a majority")));
  behind.mismatches.differs(mine, 0, operation(9, 100), shown, kFirstMoment);
  EXPECT_EQ(judged(behind.mismatches).message, shown.message) << "the peer did not say what it called";
}

// All ranks would send the same message.
TEST(MismatchDetectorAlone, SaysNothingThatAnotherRankHasSaid) {
  for (int rank = 1; rank < 40; rank++) {
    Alone alone(rank, 40), listener(rank, 40);
    for (Alone* each : {&alone, &listener}) each->mismatches.waiting(operation(7, 100), kFirstMoment);
    listener.mismatches.receive_call(0, operation(7, 100), kFirstMoment);
    const auto due = alone.mismatches.due().value();
    EXPECT_LE(due, kFirstMoment + milliseconds(300));
    alone.mismatches.tick(due);
    listener.mismatches.tick(due);
    EXPECT_THAT(alone.flood.take_outbox(), SizeIs(1));
    EXPECT_THAT(listener.flood.take_outbox(), IsEmpty());
    EXPECT_FALSE(alone.mismatches.due());
  }
}

TEST(MismatchDetectorAlone, SaysNothingOfWhatMovesAgain) {
  Alone alone(1, 4);
  alone.mismatches.waiting(operation(7, 100), kFirstMoment);
  alone.mismatches.moving(operation(7, 100));
  EXPECT_FALSE(alone.mismatches.due());
  EXPECT_TRUE(alone.mismatches.waits().empty());
}

// A message may be about an operation that this rank has not begun yet. It still counts when this rank waits in a later
// operation.
TEST(MismatchDetectorAlone, RemembersWhatItWasToldOfOperationsToCome) {
  bool begun = false;
  Alone alone(1, 4, [&](auto, std::uint64_t sequence) {
    return begun && sequence == 7 ? std::optional<NamedSignature>(operation(7, 101)) : std::nullopt;
  });
  alone.mismatches.receive_call(0, operation(7, 100), kFirstMoment);
  begun = true;
  alone.mismatches.waiting(operation(8, 5), kFirstMoment);
  EXPECT_THAT(judged(alone.mismatches).message,
              HasSubstr("rank 0 calls allreduce #7 (sum of 100 f32), rank 1 calls allreduce #7 (sum of 101 f32)"));
}

TEST(Judge, BlamesAllOutsideOfAMajority) {
  Conflict conflict{.group = "group (0, 2)", .members = 5};
  for (const int rank : {1, 2, 4}) conflict.add(rank, operation(7, 100));
  EXPECT_FALSE(conflict.exists());
  conflict.add(0, operation(7, 102));
  conflict.add(3, operation(7, 101));
  EXPECT_TRUE(conflict.exists());
  const Verdict verdict = judge(conflict);
  EXPECT_EQ(verdict.culprit, 0) << "the lowest of them";
  EXPECT_THAT(verdict.message, testing::AllOf(testing::StartsWith("in group (0, 2) the counts differ: rank "),
                                              HasSubstr("rank 0 calls allreduce #7 (sum of 102 f32)"),
                                              HasSubstr("rank 3 calls allreduce #7 (sum of 101 f32)"),
                                              HasSubstr("ranks 1, 2, 4 call allreduce #7 (sum of 100 f32)")));
}

TEST(Judge, BlamesNobodyWithoutAMajority) {
  Conflict conflict{.members = 4, .missing = {3}};
  for (const int rank : {0, 2}) conflict.add(rank, operation(7, 100));
  conflict.add(1, operation(7, 101));
  const Verdict verdict = judge(conflict);
  EXPECT_EQ(verdict.culprit, -1);
  EXPECT_EQ(verdict.message,
            "the counts differ: ranks 0, 2 call allreduce #7 (sum of 100 f32), rank 1 calls allreduce #7 (sum of 101 "
            "f32); rank 3 has not called it; no call has a majority, so it is not clear which call is wrong");
}

TEST(Judge, ShowsTheCallOfTheRankThatItBlamesFirst) {
  Conflict conflict{.members = 13};
  for (int rank = 0; rank < 13; rank++)
    conflict.add(rank, operation(7, rank >= 6 ? 100u : std::uint64_t(rank == 1 ? 103 : 101 + rank)));
  const Verdict verdict = judge(conflict);
  EXPECT_EQ(verdict.culprit, 0);
  EXPECT_THAT(verdict.message,
              testing::StartsWith("the counts differ: rank 0 calls allreduce #7 (sum of 101 f32), ranks 6-12 call "));
}

TEST(Judge, OfManyDifferentCallsNamesAFew) {
  Conflict conflict{.members = 300};
  for (int rank = 0; rank < 300; rank++) conflict.add(rank, operation(7, 1000 + std::uint64_t(rank)));
  EXPECT_LT(judge(conflict).message.size(), 500u);
  EXPECT_THAT(judge(conflict).message, HasSubstr(", and others call something else; no call has a majority"));
}

// Equal calls may have different names.
TEST(Judge, GivesNoNameThatOnlySomeOfTheRanksHave) {
  Conflict conflict{.members = 3};
  conflict.add(0, NamedSignature(operation(7, 100), "loss"));
  conflict.add(1, NamedSignature(operation(7, 100), "norm"));
  conflict.add(2, NamedSignature(operation(7, 101), "loss"));
  EXPECT_THAT(judge(conflict).message, testing::EndsWith("ranks 0, 1 call allreduce #7 (sum of 100 f32)"));
}

// One rank sends at once. Few of the other ranks send at all, and none waits for long before it sends.
TEST(Spread, LetsFewOfManySpeakFirst) {
  for (const std::size_t ranks : {2, 16, 256, 4096}) {
    std::map<milliseconds, std::size_t> at;
    for (int rank = 0; rank < int(ranks); rank++) at[spread(rank, ranks, operation(7, 100))]++;
    EXPECT_LE(at.begin()->first, milliseconds(200)) << ranks;
    EXPECT_LE(at.begin()->second, 16u) << ranks;
    EXPECT_LE(at.rbegin()->first, milliseconds(650)) << ranks;
  }
}

}  // namespace
}  // namespace anello::failure
