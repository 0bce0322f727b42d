// Each machine of ring/failure alone: without the others, and with the messages written by the test.
#include <gmock/gmock.h>

#include <algorithm>

#include "ring/failure/agreement.hpp"
#include "ring/failure/control_graph.hpp"
#include "ring/failure/departures.hpp"
#include "ring/failure/flood.hpp"
#include "ring/failure/stall_reports.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Type = ControlMessage::Type;

constexpr milliseconds kFirstMoment{1000};

std::vector<ControlMessage> sent(Flood& flood) {
  std::vector<ControlMessage> messages;
  for (const std::string& bytes : flood.take_outbox()) messages.push_back(decode_control_message(bytes, 4));
  return messages;
}
Verdict aborted_by(int rank) {
  return {ErrorCode::aborted, rank, "enough"};
}

TEST(ControlNeighbours, are_the_ranks_at_a_power_of_two_both_ways) {
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

TEST(ControlGraph, asks_for_the_nearest_lower_rank_that_remains) {
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

TEST(ControlGraph, the_highest_rank_asks_for_the_lowest_too) {
  ControlGraph graph(5, 9);
  for (const int rank : {0, 1, 2, 6, 7, 8}) graph.left(rank, kFirstMoment);
  EXPECT_FALSE(graph.due()) << "rank 5 and the lowest, rank 3, are connected";
  ControlGraph other(6, 9);
  for (const int rank : {0, 1, 2, 7, 8}) other.left(rank, kFirstMoment);
  EXPECT_THAT(other.take_calls(*other.due()), ElementsAre(3));
}

// Messages arrive over many ways; 64 of one rank may be under way at once.
TEST(Flood, passes_a_message_on_once) {
  Flood sender(0, 2), receiver(1, 2);
  const auto message = [&] {
    sender.send({.verdict = aborted_by(0)});
    return sender.take_outbox().at(0);
  };
  const auto passes_on = [&](const std::string& bytes) {
    const bool is_new = receiver.receive(bytes).has_value();
    EXPECT_THAT(receiver.take_outbox(), SizeIs(is_new ? 1 : 0));
    return is_new;
  };
  std::vector<std::string> messages;
  for (int k = 0; k < 64; k++) messages.push_back(message());
  std::swap(messages.front(), messages.back());  // the newest first, the oldest last
  for (const std::string& bytes : messages) EXPECT_TRUE(passes_on(bytes));
  for (const std::string& bytes : messages) EXPECT_FALSE(passes_on(bytes));
  EXPECT_TRUE(passes_on(message()));
  EXPECT_FALSE(passes_on(messages.back())) << "older than the window";
}

TEST(Flood, does_not_take_its_own_message_for_a_new_one) {
  Flood flood(0, 2);
  flood.send({.verdict = aborted_by(0)});
  EXPECT_FALSE(flood.receive(flood.take_outbox().at(0)));
}

TEST(FailureAgreementAlone, only_the_arbiter_decides_at_once) {
  Flood flood(1, 4);
  FailureAgreement agreement(1, 4, flood);
  agreement.receive_proposal(2, aborted_by(2), kFirstMoment);
  EXPECT_FALSE(agreement.verdict());
  agreement.exclude(0);
  agreement.receive_proposal(3, aborted_by(3), kFirstMoment);
  EXPECT_EQ(agreement.verdict().value().culprit, 3) << "the proposal that came when rank 1 was the arbiter";
  const auto messages = sent(flood);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].type, Type::decision);
  EXPECT_FALSE(agreement.due());
}

TEST(FailureAgreementAlone, decides_for_the_lowest_rank_when_the_limit_is_over) {
  Flood flood(3, 4);
  FailureAgreement agreement(3, 4, flood);
  agreement.propose(aborted_by(3), kFirstMoment);
  agreement.propose(aborted_by(3), kFirstMoment + milliseconds(1));
  agreement.receive_proposal(2, aborted_by(2), kFirstMoment + milliseconds(200));
  EXPECT_EQ(agreement.due(), kFirstMoment + FailureAgreement::kArbiterLimit);
  agreement.tick(*agreement.due() - milliseconds(1));
  EXPECT_FALSE(agreement.verdict());
  agreement.tick(*agreement.due());
  EXPECT_EQ(agreement.verdict().value().culprit, 2);
  EXPECT_THAT(sent(flood), SizeIs(2)) << "one proposal and one decision";
  agreement.receive_decision(aborted_by(0));
  EXPECT_EQ(agreement.verdict().value().culprit, 2) << "the first verdict stays";
}

TEST(FailureAgreementAlone, replaces_an_arbiter_that_has_left_at_once) {
  Flood flood(1, 4);
  FailureAgreement agreement(1, 4, flood);
  agreement.receive_proposal(2, aborted_by(2), kFirstMoment);
  EXPECT_EQ(agreement.due(), kFirstMoment + FailureAgreement::kArbiterLimit);
  agreement.exclude(0);
  EXPECT_LE(agreement.due().value(), kFirstMoment);
  agreement.tick(kFirstMoment);
  EXPECT_EQ(agreement.verdict().value().culprit, 2);
}

TEST(FailureAgreementAlone, decides_nothing_right_after_the_process_stood_still) {
  Flood flood(0, 4);
  FailureAgreement agreement(0, 4, flood);
  agreement.stood_still(kFirstMoment);
  agreement.receive_proposal(3, aborted_by(3), kFirstMoment);
  agreement.receive_proposal(2, aborted_by(2), kFirstMoment);
  EXPECT_FALSE(agreement.verdict());
  EXPECT_EQ(agreement.due(), kFirstMoment + Flood::kDeliveryLimit);
  agreement.tick(*agreement.due());
  EXPECT_EQ(agreement.verdict().value().culprit, 2) << "as ranks that waited for this one would decide";
}

TEST(DeparturesAlone, a_goodbye_describes_the_last_operations) {
  const LocalView view(0, {"a", "b", "c", "d"}, [](auto, std::uint64_t sequence) { return operation(sequence, 100); });
  Flood flood(0, 4);
  Departures departures(view, flood);
  departures.leave(0, 20);
  const auto goodbye = sent(flood).at(0);
  EXPECT_EQ(goodbye.completed, 20u);
  ASSERT_THAT(goodbye.signatures, SizeIs(Departures::kLastSent));
  EXPECT_EQ(goodbye.signatures.front().sequence, 12u);
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

TEST(StallReportsAlone, an_absent_rank_answers_once) {
  const LocalView view(1, {"a", "b", "c", "d"}, [](auto, std::uint64_t sequence) {
    return sequence == 3 ? std::optional(operation(3, 5)) : std::nullopt;
  });
  Flood flood(1, 4);
  const Departures departures(view, flood);
  StallReports stalls(view, departures, flood);
  stalls.receive_stalled(0, operation(7, 100), kFirstMoment);
  stalls.receive_stalled(2, operation(7, 100), kFirstMoment + milliseconds(5));
  const auto messages = sent(flood);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].type, Type::absent);
  EXPECT_EQ(messages[0].sequence, 7u);
  EXPECT_THAT(messages[0].signatures, ElementsAre(operation(3, 5)));
  stalls.receive_stalled(0, operation(3, 5), kFirstMoment + milliseconds(6));
  EXPECT_THAT(sent(flood), IsEmpty()) << "this rank has begun #3";
  EXPECT_EQ(stalls.due(), kFirstMoment + StallReports::kReportAfter);
  EXPECT_THAT(stalls.tick(*stalls.due()).reports,
              ElementsAre("allreduce #7 (sum of 100 f32) has stalled: ranks 0, 2 wait; rank 1 on b has not come, and "
                          "called last allreduce #3 (sum of 5 f32)"));
}

// The stalled rank was cut off before its message arrived here.
TEST(StallReportsAlone, an_answer_alone_is_not_reported) {
  const LocalView view(1, {"a", "b", "c", "d"}, [](auto, auto) { return std::nullopt; });
  Flood flood(1, 4);
  const Departures departures(view, flood);
  StallReports stalls(view, departures, flood);
  stalls.receive_absent({.origin = 2, .type = Type::absent, .sequence = 7}, kFirstMoment);
  EXPECT_THAT(stalls.tick(stalls.due().value()).reports, IsEmpty());
  EXPECT_FALSE(stalls.due());
}

TEST(StallReportsAlone, a_mismatch_is_the_higher_ranks) {
  const LocalView view(1, {"a", "b", "c", "d"}, [](auto, auto) { return std::nullopt; });
  Flood flood(1, 4);
  const Departures departures(view, flood);
  StallReports stalls(view, departures, flood);
  EXPECT_FALSE(stalls.waiting(operation(7, 100)));
  EXPECT_FALSE(stalls.receive_waiting(0, operation(7, 100)));
  EXPECT_FALSE(stalls.receive_waiting(0, operation(8, 1))) << "another number";
  EXPECT_EQ(stalls.receive_waiting(2, operation(7, 101)).value().culprit, 2);
}

}  // namespace
}  // namespace anello::failure
