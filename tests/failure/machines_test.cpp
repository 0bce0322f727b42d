// Each state machine of ring/failure alone: without the others, and with messages written by the test.
#include <gmock/gmock.h>

#include <algorithm>

#include "ring/failure/agreement.hpp"
#include "ring/failure/control_graph.hpp"
#include "ring/failure/departures.hpp"
#include "ring/failure/flood.hpp"
#include "tests/failure/alone.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Type = ControlMessage::Type;

Verdict aborted_by(int rank) {
  return {ErrorCode::aborted, rank, "enough"};
}

TEST(ControlNeighbours, AreTheRanksAtAPowerOfTwoBothWays) {
  EXPECT_THAT(control_neighbours(0, 1), IsEmpty());
  EXPECT_THAT(control_neighbours(1, 2), ElementsAre(0));
  EXPECT_THAT(control_neighbours(0, 9), ElementsAre(1, 2, 4, 5, 7, 8));
  for (int size = 2; size < 40; size++)
    for (int rank = 0; rank < size; rank++)
      for (const int other : control_neighbours(rank, size)) {
        const std::vector<int> back = control_neighbours(other, size);
        EXPECT_TRUE(std::find(back.begin(), back.end(), rank) != back.end()) << rank << " and " << other;
      }
}

TEST(ControlGraph, AsksForTheNearestLowerRankThatRemains) {
  ControlGraph graph(7, 16);
  graph.left(5, kFirstMoment);
  graph.left(3, kFirstMoment);
  EXPECT_FALSE(graph.due()) << "rank 6 is below, and connected";
  graph.left(6, kFirstMoment + milliseconds(1));
  EXPECT_EQ(graph.due(), kFirstMoment + milliseconds(1) + ControlGraph::kMendAfter);
  EXPECT_THAT(graph.take_calls(*graph.due() - milliseconds(1)), IsEmpty());
  EXPECT_THAT(graph.take_calls(*graph.due()), ElementsAre(4));
  EXPECT_FALSE(graph.due()) << "once";
  graph.unreachable(4);
  EXPECT_THAT(graph.take_calls(kFirstMoment + milliseconds(200)), ElementsAre(2)) << "at once, and rank 3 has left";
  graph.connected(2);
  EXPECT_FALSE(graph.due());
}

TEST(ControlGraph, TheHighestRankAsksForTheLowestToo) {
  ControlGraph graph(5, 9);
  for (const int rank : {0, 1, 2, 6, 7, 8}) graph.left(rank, kFirstMoment);
  EXPECT_FALSE(graph.due()) << "rank 5 and the lowest, rank 3, are connected";
  ControlGraph other(6, 9);
  for (const int rank : {0, 1, 2, 7, 8}) other.left(rank, kFirstMoment);
  EXPECT_THAT(other.take_calls(*other.due()), ElementsAre(3));
}

TEST(FailureAgreementAlone, OnlyTheArbiterDecidesAtOnce) {
  Flood flood(1, 4);
  FailureAgreement agreement(1, 4, flood);
  agreement.receive_proposal({2, 1}, aborted_by(2), kFirstMoment);
  EXPECT_FALSE(agreement.verdict());
  agreement.exclude(0);
  agreement.receive_proposal({3, 1}, aborted_by(3), kFirstMoment);
  EXPECT_EQ(agreement.verdict().value().culprit, 3) << "the proposal that came when rank 1 was the arbiter";
  const auto messages = sent(flood);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].type, Type::decision);
  EXPECT_FALSE(agreement.due());
}

TEST(FailureAgreementAlone, DecidesForTheLowestRankWhenTheLimitIsOver) {
  Flood flood(3, 4);
  FailureAgreement agreement(3, 4, flood);
  agreement.propose(aborted_by(3), kFirstMoment);
  agreement.propose(aborted_by(3), kFirstMoment + milliseconds(1));
  agreement.receive_proposal({2, 1}, aborted_by(2), kFirstMoment + milliseconds(200));
  EXPECT_EQ(agreement.due(), kFirstMoment + FailureAgreement::kArbiterLimit);
  agreement.tick(*agreement.due() - milliseconds(1));
  EXPECT_FALSE(agreement.verdict());
  agreement.tick(*agreement.due());
  EXPECT_EQ(agreement.verdict().value().culprit, 2);
  EXPECT_THAT(sent(flood), SizeIs(2)) << "one proposal and one decision";
  agreement.receive_decision(aborted_by(0));
  EXPECT_EQ(agreement.verdict().value().culprit, 2) << "the first verdict stays";
}

TEST(FailureAgreementAlone, ReplacesAnArbiterThatHasLeftAtOnce) {
  Flood flood(1, 4);
  FailureAgreement agreement(1, 4, flood);
  agreement.receive_proposal({2, 1}, aborted_by(2), kFirstMoment);
  EXPECT_EQ(agreement.due(), kFirstMoment + FailureAgreement::kArbiterLimit);
  agreement.exclude(0);
  EXPECT_LE(agreement.due().value(), kFirstMoment);
  agreement.tick(kFirstMoment);
  EXPECT_EQ(agreement.verdict().value().culprit, 2);
}

TEST(FailureAgreementAlone, DecidesNothingRightAfterTheProcessStoodStill) {
  Flood flood(0, 4);
  FailureAgreement agreement(0, 4, flood);
  agreement.stood_still(kFirstMoment);
  agreement.receive_proposal({3, 1}, aborted_by(3), kFirstMoment);
  agreement.receive_proposal({2, 1}, aborted_by(2), kFirstMoment);
  EXPECT_FALSE(agreement.verdict());
  EXPECT_EQ(agreement.due(), kFirstMoment + Flood::kDeliveryLimit);
  agreement.tick(*agreement.due());
  EXPECT_EQ(agreement.verdict().value().culprit, 2) << "as ranks that waited for this one would decide";
}

TEST(DeparturesAlone, AGoodbyeDescribesTheLastOperations) {
  const LocalView view(0, {"a", "b", "c", "d"}, [](auto, std::uint64_t sequence) { return operation(sequence, 100); });
  Flood flood(0, 4);
  Departures departures(view, flood);
  departures.leave(0, 20);
  const auto goodbye = sent(flood).at(0);
  EXPECT_EQ(goodbye.completed, 20u);
  ASSERT_THAT(goodbye.calls, SizeIs(Departures::kLastSent));
  EXPECT_EQ(goodbye.calls.front().sequence, 12u);
  EXPECT_FALSE(departures.has_left(0)) << "a rank does not wait for itself";

  ControlMessage theirs = goodbye;
  theirs.origin = 2;
  departures.receive_goodbye(theirs, kFirstMoment);
  EXPECT_TRUE(departures.has_left(2));
  EXPECT_EQ(departures.ends_at(0), 20u);
  EXPECT_EQ(departures.last_called(2, 0, 19), operation(19, 100));
  EXPECT_FALSE(departures.last_called(2, 0, 11)) << "long ago";
  EXPECT_FALSE(departures.left_before(operation(19, 100)));
  EXPECT_THAT(departures.left_before(operation(20, 100)).value().message,
              HasSubstr("rank 2 on c left the world after 20"));
  EXPECT_FALSE(departures.due()) << "there is no other group";
}

// Messages about operations that members completed before they left may still be under way.
TEST(DeparturesAlone, WhoNeedsMessagesSaysForWhat) {
  LocalView view(0, {"a", "b", "c"}, [](auto, auto) { return std::nullopt; });
  view.add_group(7, "group (0, 2)", {0, 2});
  Flood flood(0, 3);
  Departures departures(view, flood);
  EXPECT_FALSE(departures.any_left(7, 4, "waits in join"));
  ControlMessage goodbye{.origin = 2, .type = Type::goodbye, .group = 7, .completed = 5, .members_of_group = 2};
  departures.receive_goodbye(goodbye, kFirstMoment);
  EXPECT_FALSE(departures.any_left(7, 4, "waits in join"));
  EXPECT_EQ(departures.any_left(7, 5, "waits in join").value().message,
            "rank 2 on c left group (0, 2), but rank 0 waits in join");
  goodbye.group = 0;
  departures.receive_goodbye(goodbye, kFirstMoment);
  EXPECT_EQ(departures.any_left(7, 5, "waits in join").value().message,
            "rank 2 on c left the world, but rank 0 waits in join");
}

ControlMessage question(const Signature& operation, milliseconds period, std::uint32_t attempt = 0) {
  ControlMessage message{.origin = 0, .type = Type::stalled, .members = {0, 1, 2, 3}};
  message.stall = {operation.group, operation.sequence, period, false, attempt};
  message.calls = {operation};
  return message;
}

TEST(StallReportsAlone, ARankAnswersEachQuestionOnce) {
  Alone alone(
      1, 4, [](auto, std::uint64_t sequence) { return sequence == 3 ? std::optional(operation(3, 5)) : std::nullopt; });
  const auto answers = [&](const Signature& about, milliseconds period) {
    alone.stalls.receive_question(question(about, period), kFirstMoment);
    return sent(alone.flood);
  };
  const auto first = answers(operation(7, 100), milliseconds(60000));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].type, Type::answer);
  EXPECT_EQ(first[0].stall.sequence, 7u);
  EXPECT_EQ(first[0].answer.state, StallAnswer::State::not_called);
  EXPECT_EQ(first[0].answer.last, operation(3, 5));
  EXPECT_THAT(answers(operation(7, 100), milliseconds(60000)), IsEmpty()) << "another rank asks the same";
  EXPECT_THAT(answers(operation(7, 100), milliseconds(120000)), SizeIs(1)) << "a minute later";
  const auto called = answers(operation(3, 5), milliseconds(60000));
  ASSERT_THAT(called, SizeIs(1));
  EXPECT_EQ(called[0].answer.state, StallAnswer::State::called);
}

// The answer arrives without its question, which was lost, or is still under way.
TEST(StallReportsAlone, AnAnswerAloneIsNotReported) {
  Alone alone(1, 4);
  ControlMessage answer{.origin = 2, .type = Type::answer, .stall = {0, 7, milliseconds(60000)}};
  answer.answer.state = StallAnswer::State::not_called;
  alone.stalls.receive_answer(answer);
  EXPECT_FALSE(alone.stalls.due());
  EXPECT_THAT(alone.stalls.take_completed().reports, IsEmpty());
  alone.stalls.receive_question(question(operation(7, 100), milliseconds(60000)), kFirstMoment);
  EXPECT_EQ(alone.stalls.due(), kFirstMoment + StallReports::kAnswerLimit);
  alone.stalls.tick(kFirstMoment + StallReports::kAnswerLimit);
  EXPECT_THAT(alone.stalls.take_completed().reports,
              ElementsAre("allreduce #7 (sum of 100 f32) has stalled for 60 s: ranks 1, 2 have not come, and called "
                          "nothing before; rank 3 on b does not answer: its process is stopped, it is cut off, or its "
                          "host is overloaded; rank 0 waits"));
  EXPECT_FALSE(alone.stalls.due());
}

// Rank 1 answers two questions about one operation: "not called" to the first, and "waits" to the second.
TEST(StallReportsAlone, AnAnswerCountsForTheQuestionThatItAnswers) {
  Alone alone(0, 4);
  alone.stalls.receive_question(question(operation(7, 100), milliseconds(60000), 1), kFirstMoment);
  for (const std::uint32_t attempt : {0, 1})
    alone.stalls.receive_answer({.origin = 1,
                                 .type = Type::answer,
                                 .stall = {0, 7, milliseconds(60000), false, attempt},
                                 .answer = {attempt ? StallAnswer::State::waits : StallAnswer::State::not_called}});
  alone.stalls.tick(alone.stalls.due().value());
  EXPECT_THAT(alone.stalls.take_completed().reports, ElementsAre(testing::HasSubstr("; ranks 0, 1 wait")));
}

// A rank that is not a member of a large group does not have a list of its members. So a question names the members as
// runs, if the group is regular or has up to 512 members.
TEST(StallReportsAlone, AQuestionNamesTheMembersOfALargeGroup) {
  constexpr int kWorld = 100'000;
  std::vector<int> even, mixed, too_mixed;
  for (int rank = 0; rank < kWorld; rank += 2) even.push_back(rank);
  for (int k = 0; k < 600; k++) (k < 512 ? mixed : too_mixed).push_back(k * k * 7 % 4099);
  too_mixed.insert(too_mixed.end(), mixed.begin(), mixed.end());
  const auto sent = [](const std::vector<int>& members) {
    ControlMessage message = question(operation(7, 100), milliseconds(60000));
    message.group_name = std::string(ControlMessage::kMaxNameBytes, 'g');
    message.calls.front().name = std::string(ControlMessage::kMaxCallNameBytes, 'n');
    message.members = members;
    const std::string bytes = encode(message);
    EXPECT_LE(bytes.size(), ControlMessage::kMaxBytes);
    return decode_control_message(bytes, kWorld).members;
  };
  for (const std::vector<int>& members : {even, mixed, {5}, {9, 7, 5}, {}}) EXPECT_EQ(sent(members), members);
  EXPECT_THAT(sent(too_mixed), IsEmpty());
}

TEST(StallReportsAlone, NobodyIsSaidToHaveComeIfTheMembersAreNotKnown) {
  Alone alone(1, 4);
  Signature in_group = operation(7, 100);
  in_group.group = 5;
  ControlMessage unlisted = question(in_group, milliseconds(60000));
  unlisted.members.clear();
  alone.stalls.receive_question(unlisted, kFirstMoment);
  EXPECT_THAT(sent(alone.flood), IsEmpty());
  ControlMessage answer{.origin = 2, .type = Type::answer, .stall = unlisted.stall};
  alone.stalls.receive_answer(answer);
  alone.stalls.tick(alone.stalls.due().value());
  EXPECT_THAT(alone.stalls.take_completed().reports,
              ElementsAre("allreduce #7 (sum of 100 f32) in a group has stalled for 60 s: ranks 0, 2 wait"));
}

TEST(StallReportsAlone, TheNumberOfRememberedStallsIsBounded) {
  Alone alone(1, 4);
  for (std::uint64_t sequence = 0; sequence < 10000; sequence++) {
    ControlMessage answer{.origin = 2, .type = Type::answer, .stall = {0, sequence, milliseconds(60000)}};
    alone.stalls.receive_answer(answer);
  }
  EXPECT_LT(alone.stalls.remembered(), 1000u);
}

TEST(StallText, ManyDifferentReasonsAreCut) {
  const LocalView view(0, std::vector<std::string>(1000, "b"), [](auto, auto) { return std::nullopt; });
  StallFindings findings{.operation = operation(7, 100), .period = milliseconds(60000)};
  for (int rank = 1; rank < 1000; rank++) {
    StallAnswer answer{.state = StallAnswer::State::not_called};
    answer.last = operation(std::uint64_t(rank) % 50, 5);
    findings.answers[rank] = answer;
  }
  findings.answers[0] = {};
  const std::string text = describe(view, findings);
  EXPECT_THAT(text, HasSubstr("have not come, and called last allreduce #1 (sum of 5 f32)"));
  EXPECT_THAT(text, HasSubstr(" are missing too; rank 0 waits"));
  EXPECT_LT(text.size(), ControlMessage::kMaxMessageBytes);
}

}  // namespace
}  // namespace anello::failure
